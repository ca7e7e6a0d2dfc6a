"""Sections that other packages add to a comparison by entry points ``privbench.report_sections``.

Each is a class without arguments, a `ReportSection`. Its measurements are CONFIDENTIAL, like the
rest of a comparison, and are stored in comparison.json under ``sections``, by the section's name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from jinja2 import Template

from privbench import plugins
from privbench.encoding import Codec
from privbench.errors import ConfigError
from privbench.metrics.fidelity import TableFidelity
from privbench.postgres.snapshot import Snapshot
from privbench.report.document import ComparisonDocument, QueryPart
from privbench.schema import Schema
from privbench.synthesizers import FittedModel


@dataclass(frozen=True)
class Modelled:
    """The released model that the clone was made from."""

    digest: str  # SHA-256 of the model file
    synthesizer: str  # what learned it
    promise: str  # its guarantee, in one sentence
    fitted: FittedModel
    codecs: Mapping[str, Mapping[str, Codec]]  # by private table and column, what codes stand for


@dataclass(frozen=True)
class Comparison:
    """What a section may read: earlier measurements, and both databases."""

    schema: Schema  # of the source
    fidelity: Mapping[str, TableFidelity]  # compared columns of the compared tables, by table key
    queries: Sequence[QueryPart]
    model: Modelled | None
    # Opens new snapshots of source and clone, in which the tables of these keys cannot change and
    # reading them calls no function of users.
    snapshots: Callable[[Collection[str]], AbstractContextManager[tuple[Snapshot, Snapshot]]]


class ReportSection(ABC):
    """A section of the report that another package adds."""

    name: ClassVar[str]  # its anchor on the page, and its key in the document
    follows: ClassVar[str] = "fanouts"  # the section of the core that it comes after

    @abstractmethod
    def collect(self, comparison: Comparison) -> Any:
        """Measure the section's data: a JSON value, or None if there is nothing to show."""

    @abstractmethod
    def values(self, document: ComparisonDocument) -> dict[str, object]:
        """Return the values that the template needs besides the document."""

    @abstractmethod
    def template(self) -> Template:
        """Return its template, which sets ``title`` and ``intro``.

        See `privbench.report.templates`.
        """


def installed() -> list[ReportSection]:
    """Return the sections of installed packages, by name."""
    sections = []
    for name in plugins.names(plugins.SECTIONS):
        kind = plugins.load(plugins.SECTIONS, name)
        if not (isinstance(kind, type) and issubclass(kind, ReportSection) and kind.name == name):
            raise ConfigError(f"the entry point {name!r} is no section of a report.")
        sections.append(kind())
    return sections
