"""Events: frozen descriptions of what was released, without the arithmetic of its loss.

An event's meaning never changes. It says which mechanism was applied to which statistic, with which
sensitivity and scale; `privbench.privacy.accountant` decides what that costs.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from privbench.limits import Amount, Count, PartTuple, Share, Text
from privbench.privacy.query import Sensitivity

#: Names of the mechanisms, as ledger and model header print them.
MechanismName = Literal[
    "discrete_laplace",
    "discrete_gaussian",
    "noisy_max",
    "noisy_max_gumbel",
    "laplace_threshold",
    "gaussian_threshold",
]


#: Pure ε, or zCDP that is converted once to (ε, δ).
Accounting = Literal["pure", "zcdp"]

_LISTS = ("columns", "shape", "roots")


@dataclass(frozen=True, slots=True)
class Event:
    """One use of a mechanism on private rows."""

    id: Count  # position within the release, from 0; a redraw after a crash is an event of its own
    label: Text  # its purpose, in the words of the code that measures
    kind: Text
    table: Text  # the table whose rows are counted
    columns: PartTuple[Text]  # attributes or keys that are read
    # Fingerprint of the query's public fields; a resumed fit must repeat it.
    query: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    # Shape of the statistic; ``()`` for a threshold release, whose size is not public.
    shape: Annotated[tuple[Count, ...], Field(max_length=64)]
    mechanism: MechanismName
    unit: Annotated[int, Field(ge=1, le=2**62)]  # grid units per counted 1
    sensitivity: Sensitivity  # the registered claim, in grid units
    scale: Amount  # scale of the noise, in grid units
    threshold: int | None  # smallest released count of a threshold release, in grid units
    loss: Literal["epsilon", "rho"]  # how ``amount`` is measured
    amount: Amount  # the charge: ε or ρ
    delta: Share  # the charge in δ; 0 for all but threshold releases
    roots: PartTuple[Text]  # root tables that are charged, sorted
    neighbours: Literal["add-remove", "replace"]  # under which the sensitivity holds
    private: bool  # False when the noise was seeded or left out

    def same(self, other: Event) -> bool:
        """Return whether both describe the same use of a mechanism; their positions may differ."""
        return self == replace(other, id=self.id)

    def to_json(self) -> dict[str, Any]:
        """Return the event as a JSON object, which `from_json` reads without loss."""
        return {**asdict(self), **{name: list(getattr(self, name)) for name in _LISTS}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the event that a JSON object of `to_json` describes."""
        lists = {name: tuple(data[name]) for name in _LISTS}
        return cls(**{**data, **lists, "sensitivity": Sensitivity(**data["sensitivity"])})


def fingerprint(query: object) -> str:
    """Return sixteen hexadecimal digits of a query's public content, the same in every process.

    The fingerprint is a hash of the query's ``repr``. Queries are frozen values of numbers, texts,
    tuples, and public arrays, which print the whole digest of their content. So two queries with
    one fingerprint are equal. A query must not have a field that is a set or that is left out of
    its ``repr``. A field that can change, such as an array, cannot be hashed and is a TypeError.

    >>> fingerprint((1, "a")) == fingerprint((1, "a")) != fingerprint((1, "b"))
    True
    """
    hash(query)
    return hashlib.sha256(repr(query).encode()).hexdigest()[:16]
