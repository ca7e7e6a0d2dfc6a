"""The stability harness: evaluates queries on neighbouring databases and checks every claim.

It must find nothing of a sound query, and how a mutant breaks its claim.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from stability import (
    SLACK,
    Statistic,
    Unit,
    _restrict,
    all_units,
    judge,
    neighbour_pairs,
    remove_unit,
    telling_units,
)

from privbench.privacy.data import PrivateDatabase
from privbench.privacy.query import Query
from privbench.privacy.recoding import Recoding
from privbench.privacy.spec import DatabaseSpec, TableSpec
from privbench.privacy.units import BOTTOM, Units

Wrong = TypeVar("Wrong", bound=Callable[..., Any])


class Violation(NamedTuple):
    """A claim that does not hold when a unit of the root table is removed or replaced."""

    event: int  # position of the query in the trace
    kind: str
    table: str
    root: str
    reason: str  # l1, l2, linf, l0, shape, or roots: of the unit's root table, which is not charged
    ratio: float  # observed over claimed change; infinite for shape and roots


@dataclass
class StabilityReport:
    """The result of a check."""

    worst: list[float]  # for every query, the largest ratio of change and claim in any norm
    neighbours: int = 0  # number of neighbouring pairs
    violations: list[Violation] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every claim held."""
        return not self.violations

    @property
    def worst_ratio(self) -> float:
        """The largest ratio over all queries, 0 without any."""
        return max(self.worst, default=0.0)


def check(
    queries: Sequence[Query],
    database: PrivateDatabase,
    *,
    recodings: Sequence[tuple[str, str, Recoding]] = (),
    units: Sequence[Unit] | None = None,
    every: bool = False,
) -> StabilityReport:
    """Check the claims of all queries on the neighbours of a database, before its ``recodings``.

    Chosen are ``units``, ``every`` unit, or else `telling_units`. Under replace, those of one root
    table that follow one another change places.
    """
    chosen = list(all_units(database)) if every else list(units or telling_units(database))
    report = StabilityReport([0.0] * len(queries))
    spec = _recoded(database, recodings).spec
    known: list[tuple[PrivateDatabase, list[Statistic]]] = []
    for root, first, second in neighbour_pairs(database, chosen):
        report.neighbours += 1
        # One side of a pair is a side of the next one as well: it is evaluated once.
        known = [
            next((pair for pair in known if pair[0] is side), None)
            or (side, statistics(queries, side, recodings))
            for side in (first, second)
        ]
        before, after = (found for _, found in known)
        for event, query in enumerate(queries):
            for reason, ratio in judge(query, spec, root, before[event], after[event]):
                report.worst[event] = max(report.worst[event], ratio)
                if ratio > 1 + (SLACK if reason == "l2" else 0):
                    found = Violation(event, query.kind, query.table, root, reason, ratio)
                    report.violations.append(found)
    return report


def broken(
    queries: Sequence[Query],
    root: str,
    first: PrivateDatabase,
    second: PrivateDatabase,
    recodings: Sequence[tuple[str, str, Recoding]] = (),
) -> set[tuple[str, str]]:
    """Claims that do not hold between two databases, by the kind of query and the reason."""
    spec = _recoded(first, recodings).spec
    sides = (statistics(queries, side, recodings) for side in (first, second))
    return {
        (query.kind, reason)
        for query, before, after in zip(queries, *sides, strict=True)
        for reason, ratio in judge(query, spec, root, before, after)
        if ratio > 1 + (SLACK if reason == "l2" else 0)
    }


def _recoded(
    database: PrivateDatabase, recodings: Sequence[tuple[str, str, Recoding]]
) -> PrivateDatabase:
    copy = database.copy()
    for table, attribute, recoding in recodings:
        copy.recode(table, attribute, recoding)
    return copy


def statistics(
    queries: Sequence[Query],
    database: PrivateDatabase,
    recodings: Sequence[tuple[str, str, Recoding]],
) -> list[Statistic]:
    settled = _recoded(database, recodings)
    return [_statistic(query, database, settled) for query in queries]


def _statistic(query: Query, raw: PrivateDatabase, settled: PrivateDatabase) -> Statistic:
    side = raw if query.reads_raw else settled
    counter = getattr(query, "evaluate_labels", None)
    found: Statistic = query.evaluate(side) if counter is None else counter(side)
    return found


def remainder(
    database: PrivateDatabase, freed: Collection[str], table: str, row: int, *, kept: bool = True
) -> tuple[Unit, PrivateDatabase, PrivateDatabase]:
    """A unit of which a finer one goes: its root, the database without it, and with its remainder.

    Units are finer where the OWN keys of the tables ``freed`` own nothing; that of a row goes. Rows
    of the remainder whose owner went stay in its unit, or, unless ``kept``, are units of their own.
    """
    units, spec = database._units, database.spec
    sizes = {name: database._rows(name) for name in spec.tables}
    free = {name: freed_of(item) if name in freed else item for name, item in spec.tables.items()}
    owners = {name: item.own for name, item in free.items() if item.own is not None}
    finer = Units(
        DatabaseSpec(free, spec.relation),
        sizes,
        {name: database._parents(key) for name, key in owners.items()},
    )
    gone, whole = int(finer.identity(table)[row]), int(units.identity(table)[row])
    names = sorted(sizes)
    stays = {name: finer.identity(name) != gone for name in names}
    rest = [stays[name] & (units.identity(name) == whole) for name in names]
    # The remainder is numbered by its root, if that stays, else by its first row.
    start = {name: sum(sizes[other] for other in names[:k]) for k, name in enumerate(names)}
    of_rest = np.concatenate(rest)
    first = whole if of_rest[whole] else int(of_rest.argmax())
    number = int(np.concatenate([stays[name] for name in names])[:first].sum())
    tables = {name: _restrict(database, name, stays) for name in names}
    marked, end = {}, 0
    for name in names:
        itself = np.arange(end, end + stays[name].sum())
        end += len(itself)
        own = spec.tables[name].own
        if own is not None and kept:
            lost = database._parents(own)[stays[name]] >= 0
            lost &= tables[name]._parents[own.name] == BOTTOM
            marked[name] = np.where(lost, number, itself)
    ranks = {name: units.ranks(name)[stays[name]].copy() for name in names}
    for name, mask in zip(names, rest, strict=True):
        ranks[name][mask[stays[name]]] = np.arange(mask.sum())
    root = next(name for name in names if 0 <= whole - start[name] < sizes[name])
    without = remove_unit(database, root, whole - start[root])
    return (root, whole - start[root]), without, PrivateDatabase(spec, tables, ranks, marked)


def freed_of(table: TableSpec) -> TableSpec:
    """A table whose rows nothing owns."""
    keys = (replace(key, role="ref") if key.role == "own" else key for key in table.keys)
    return replace(table, keys=tuple(keys))


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
    """A wrong kind of a sound query, on a database on which it shows.

    It is a class, or a function in the place of a method, which is given the sound query first.
    """

    wrong: Callable[..., Any]
    database: Callable[[], PrivateDatabase]
    sound: Callable[[PrivateDatabase], Query]
    reasons: set[str]
    method: str

    def __str__(self) -> str:
        return self.wrong.__name__

    def _of(self, query: Query) -> Query:
        if isinstance(self.wrong, type):
            return turned(self.wrong, query)
        methods = {self.method: lambda _, *given: self.wrong(query, *given)}
        return turned(type(str(self), (type(query),), methods), query)

    def must_be_caught(self) -> None:
        """The sound query holds its claim, and the mutant breaks it in all these ways."""
        database = self.database()
        query = self.sound(database)
        assert caught(query, database) == set()
        assert self.reasons <= caught(self._of(query), database)


class Mutants(list[Mutant]):
    """The mutants of a module."""

    def of(
        self,
        database: Callable[[], PrivateDatabase],
        sound: Callable[[PrivateDatabase], Query],
        *reasons: str,
        method: str = "evaluate",
    ) -> Callable[[Wrong], Wrong]:
        """A decorator: of that query this is a mutant, to be caught for these reasons."""

        def add(wrong: Wrong) -> Wrong:
            self.append(Mutant(wrong, database, sound, set(reasons), method))
            return wrong

        return add
