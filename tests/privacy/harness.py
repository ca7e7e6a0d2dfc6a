"""What the stability harness must find of a query: nothing, or how a mutant breaks its claim."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from privbench.privacy.data import PrivateDatabase
from privbench.privacy.query import Query
from privbench.privacy.stability import check

Kind = TypeVar("Kind", bound=type[Any])


def caught(query: Query, database: PrivateDatabase, **given: Any) -> set[str]:
    """Why the query breaks its claim when a unit goes: any one, or one of ``units``."""
    report = check([query], database, every=not given, **given)
    return {violation.reason for violation in report.violations}


def turned(kind: type[Any], query: Query) -> Query:
    """The same question, answered or claimed for by a mutant."""
    made: Query = kind(
        **{part.name: getattr(query, part.name) for part in fields(query) if part.init}
    )
    return made


@dataclass(frozen=True)
class Mutant:
    """A wrong kind of a sound query, on a database on which it shows."""

    kind: type[Any]
    database: Callable[[], PrivateDatabase]
    sound: Callable[[PrivateDatabase], Query]
    reasons: set[str]

    def __str__(self) -> str:
        return self.kind.__name__

    def must_be_caught(self) -> None:
        """The sound query holds its claim, and the mutant breaks it in all these ways."""
        database = self.database()
        query = self.sound(database)
        assert caught(query, database) == set()
        assert self.reasons <= caught(turned(self.kind, query), database)


@dataclass
class Mutants:
    """The mutants of a module."""

    held: list[Mutant] = field(default_factory=list)

    def of(
        self,
        database: Callable[[], PrivateDatabase],
        sound: Callable[[PrivateDatabase], Query],
        *reasons: str,
    ) -> Callable[[Kind], Kind]:
        """A decorator: the class is a mutant of that query, to be caught for these reasons."""

        def add(kind: Kind) -> Kind:
            self.held.append(Mutant(kind, database, sound, set(reasons)))
            return kind

        return add

    def __iter__(self) -> Iterator[Mutant]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)
