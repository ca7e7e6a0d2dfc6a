"""What queries of an attribute whose domain is not settled share."""

from __future__ import annotations

from dataclasses import dataclass

from privbench.privacy.query import Query


@dataclass(frozen=True, slots=True)
class RawQuery(Query):
    """A statistic of one attribute, evaluated before any recoding (`Query.reads_raw`).

    Attributes:
        source: The table.
        attribute: The attribute.
    """

    source: str
    attribute: str
    reads_raw = True

    @property
    def table(self) -> str:
        """See `Query.table`."""
        return self.source

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return (self.attribute,)
