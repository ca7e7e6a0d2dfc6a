"""The rehearsal finds formats in which surrogate values satisfy the schema's expressions.

A target evaluates more than CHECKs for every row: generated columns, indexes on expressions, ranges
of two columns, bounds of partitions, domains. So, before consent and before anything is measured,
the target's own PostgreSQL evaluates them on surrogate rows of the plan, in the empty schema that a
rehearsal of the load makes and rolls back. Where values fail, the columns that the expression reads
try formats in a fixed order (`privbench.encoding.formats`), one column after another, each taking
the first format with which most rows pass. The formats become part of the model's schema, as CHECKs
and templates, so that every load draws the same values.

*Privacy.* Everything here is a function of the catalog and the config (P3): surrogate rows come
from the encoders' plans with default domains and a fixed seed, and the expressions read no row of
the source. Two databases with one schema choose the same formats, whatever their rows. So formats
are public, like the schema that they follow from, and no event is charged for them.

Only errors of values count. Expressions that fail because the server lacks something (an extension,
a function, a feature), or that take too long, are ignored. When all of them together have taken a
minute, the formats found so far are used. Expressions that no format satisfies are named, and the
load leaves them out.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from privbench import roles
from privbench.config import ColumnConfig, Config, TableConfig
from privbench.encoding import (
    BoundsNeed,
    CategoriesNeed,
    ColumnReader,
    Step,
    reader,
    role_of,
)
from privbench.encoding.base import ReleasedDomain
from privbench.encoding.filled import is_unknown, refuse_unknown
from privbench.encoding.formats import Choice, choices, formatted
from privbench.encoding.keys.placeholders import value_space
from privbench.encoding.scale import Scale, scale_of
from privbench.errors import DatabaseError, PrivbenchError, SchemaError, UsageError
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import Catalog
from privbench.postgres.connect import connect
from privbench.postgres.ddl import Ddl
from privbench.postgres.embedded import any_server
from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.rehearsal import FALSE, PASSED, Stored, Trial, stored
from privbench.postgres.repair.rows import TargetTables
from privbench.postgres.statement import build, run
from privbench.rng import generator
from privbench.rules.facts import checked_orders
from privbench.rules.texts import column_pattern, unkept_checks
from privbench.schema import Check, Column, Schema, Table

#: Surrogate rows of a table.
_ROWS = 16
#: Turns over all columns of an expression, as the format of one may need that of another.
_TURNS = 3
#: Outcomes of rows that break a CHECK, of a domain too.
_BROKEN = (FALSE, "23514")
#: Of a number, and of a time, that is out of range.
_LARGE, _LATE = "22003", "22008"
#: An expression whose broken rows a load repairs needs this share of rows that pass.
_ENOUGH = 0.25
#: Most columns that one search looks at: the number of its trials grows with them.
_COLUMNS = 12
#: The role, and the database, of a server of our own.
_ROLE = "rehearsal"


def rehearse_expressions(loader: Loader, catalog: Catalog, config: Config) -> Catalog:
    """Return the catalog with formats for its columns, and a line per expression that fails.

    To be called within `Loader.rehearsal`. Tables that the config declares public are copied as
    they are, and not examined.

    Raises:
        SchemaError: A NOT NULL column has a type of which no value is known, and none was found.
    """
    schema = catalog.schema
    sections = roles.sections(schema, config)
    private = [t for t in schema if sections[t.key].role != "public"]
    clone = TargetTables(loader.connection, map(loader.table, private))
    listed = stored(clone, is_unknown)
    trial, tables, lines = Trial(clone), {t.key: t for t in schema}, []
    for table in private:
        search = _Search(trial, table, sections[table.key], config.privacy.delta, listed[table.key])
        tables[table.key], failing = search.run()
        lines += failing
    return replace(
        catalog,
        schema=replace(schema, tables=tuple(tables[t.key] for t in schema)),
        rehearsed=True,
        findings=tuple(lines),
    )


def rehearse_apart(catalog: Catalog, config: Config, reporter: Reporter) -> Catalog:
    """Run `rehearse_expressions` in a server of this process, for a fit that has no target.

    The DDL is judged as that of a stranger, so no function of the source runs, and its statements
    run as a role that owns that server's empty database alone. If there is no such server, or it
    cannot create the schema, a warning says so, and the catalog is returned unchanged.
    """
    if not _is_limited(catalog.schema):
        return replace(catalog, rehearsed=True)
    try:
        with reporter.stage("rehearse the schema"):
            with database_errors("preparing a rehearsal"):
                dsn = _scratch()
                _extend(dsn, catalog.ddl)
            target = Loader(dsn, catalog.schema, catalog.ddl, trust=False, as_role=_ROLE)
            with target as loader, loader.rehearsal():
                return rehearse_expressions(loader, catalog, config)
    except SchemaError:
        raise
    except (UsageError, DatabaseError) as error:
        warning = "expressions of the schema are not rehearsed, so that a load may leave some out"
        reporter.say(f"{warning}: {error.message}")
        return catalog


@cache
def _scratch() -> str:
    """The empty database of a server that ends with this process, and the role that owns it."""
    server = any_server()
    with connect(server.dsn) as connection:
        connection.autocommit = True
        run(connection, build("CREATE ROLE {}", _ROLE))
        run(connection, build("CREATE DATABASE {0} OWNER {0}", _ROLE))
    return f"{server.dsn} dbname={_ROLE}"


def _extend(dsn: str, ddl: Ddl) -> None:
    """Make extensions that only add types and operators, for which a role may lack the right."""
    with connect(dsn) as connection:
        for _, space, text in ddl.script(trust=False).extensions:
            with suppress(psycopg.Error), connection.transaction():
                # The schema may hold tables as well, which the role makes.
                made = "CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}"
                run(connection, build(made, space or "public", _ROLE))
                run(connection, text.encode())
        connection.commit()


def _is_limited(schema: Schema) -> bool:
    """Whether a schema has an expression to rehearse, or a type that may refuse values."""
    return any(
        unkept_checks(table)
        or "(" in (table.partition_key or "").partition("(")[2]
        or any(index.has_expressions for index in table.indexes)
        or any(c.generated or c.type.domain_checks or c.type.extension for c in table.columns)
        or any(is_unknown(column) for column in table.columns)
        for table in schema
    )


class _Search:
    """The search for formats of one table."""

    def __init__(
        self,
        trial: Trial,
        table: Table,
        section: TableConfig,
        delta: float,
        listed: Sequence[Stored],
    ) -> None:
        self._trial, self._table, self._listed = trial, table, listed
        self._config, self._delta = section.columns, delta
        # Of each expression what the last row gave that it did not take.
        self._states: dict[str, str] = {}
        self._arrays: dict[tuple[Column, tuple[Check, ...]], pa.Array] = {}

    def run(self) -> tuple[Table, list[str]]:
        """The table with its formats, and a line for every expression that keeps failing."""
        passes = self._passes(self._listed, {})
        chosen: dict[Choice, tuple[str, ...]] = {}
        for group in _connected([item for item in self._listed if item.what in passes]):
            if any(self._fails(item, passes) for item in group):
                chosen |= self._choose(group)
        table = formatted(self._table, chosen)
        for column in table.columns:
            refuse_unknown(table.key, column)
        passes = self._passes(self._listed, chosen)
        failing = [i for i in self._listed if i.what in passes and self._fails(i, passes)]
        # A load repairs such rows, or puts the CHECK back as NOT VALID and names it.
        failing = [i for i in failing if not (i.is_check and self._states.get(i.what) in _BROKEN)]
        return table, [self._line(item) for item in failing]

    def _fails(self, item: Stored, passes: dict[str, int]) -> bool:
        return passes[item.what] < (_ENOUGH if item.repaired else 1) * _ROWS

    def _choose(self, group: Sequence[Stored]) -> dict[Choice, tuple[str, ...]]:
        """The formats with which most rows pass some expressions."""
        names = [c.name for c in self._table.columns if any(c.name in i.columns for i in group)]
        free = [name for name in names[:_COLUMNS] if self._is_free(name)]
        offered = choices(self._table, free, [item.text for item in group])
        chosen: dict[Choice, tuple[str, ...]] = {}
        for _ in range(_TURNS):
            before = dict(chosen)
            for choice in offered:
                if self._trial.over:
                    return chosen
                some = [item for item in group if set(choice.columns) & set(item.columns)]
                self._improve(choice, some, chosen)
            if chosen == before:
                break
        self._widen(group, chosen, offered)
        return chosen

    def _improve(
        self, choice: Choice, some: Sequence[Stored], chosen: dict[Choice, tuple[str, ...]]
    ) -> None:
        """Choose the first of the formats with which most rows pass, if it is better than now.

        By chance an order of two columns moves values to where more rows pass, so it has to be all
        that an expression of both was lacking.
        """
        before = self._passes(some, chosen)
        best = sum(before.values())
        read = [item.what for item in some if {*item.columns} >= {*choice.columns}]
        for item in choice.formats:
            if best == _ROWS * len(some):
                break
            passes = self._passes(some, {**chosen, choice: (item,)})
            settled = any(before.get(what, _ROWS) < passes.get(what, 0) == _ROWS for what in read)
            if sum(passes.values()) > best and (settled or len(choice.columns) == 1):
                best, chosen[choice] = sum(passes.values()), (item,)

    def _widen(
        self,
        group: Sequence[Stored],
        chosen: dict[Choice, tuple[str, ...]],
        offered: Sequence[Choice],
    ) -> None:
        """Drop formats that nothing needs; allow all single values, or other keys, that pass."""
        whole = self._passes(group, chosen)
        if self._trial.over:
            return
        for choice in list(chosen):
            others = {other: formats for other, formats in chosen.items() if other != choice}
            if self._passes(group, others) == whole:
                del chosen[choice]
        documents = {choice.columns for choice in chosen if choice.keys}
        for choice in offered:
            keyed = choice.keys and choice.columns in documents
            if not keyed and not choice.values.intersection(chosen.get(choice, ())):
                continue
            good: list[str] = []
            for item in choice.options:
                if good and item not in choice.values:
                    continue
                if self._passes(group, {**chosen, choice: (item,)}) == whole:
                    good.append(item)
                if good and good[0] not in choice.values:
                    break
            if good:
                chosen[choice] = tuple(good)

    def _passes(
        self, some: Sequence[Stored], chosen: dict[Choice, tuple[str, ...]]
    ) -> dict[str, int]:
        """How many surrogate rows each expression takes; nothing of one that says nothing."""
        try:
            values = self._values(
                formatted(self._table, chosen), {name for item in some for name in item.columns}
            )
        except (PrivbenchError, ValueError, pa.ArrowException):
            # A format that leaves a column no value beside its CHECKs.
            return dict.fromkeys((item.what for item in some), 0)
        passes: dict[str, int] = {}
        for item in some:
            outcomes = self._trial.outcomes(item, values)
            if outcomes is None:
                continue
            good = self._good(item)
            bad = [state for state in outcomes if state not in good]
            passes[item.what] = _ROWS - len(bad)
            self._states[item.what] = bad[0] if bad else PASSED
        return passes

    def _good(self, item: Stored) -> set[str]:
        """Outcomes that do not speak against values.

        The ends of a range that is yet to be measured lie far beyond the rows. So results that are
        too large say nothing where numbers and times alone are read.
        """
        good = {PASSED, FALSE} if item.lenient else {PASSED}
        kinds = {self._table.column(name).type.category for name in item.columns}
        if kinds <= {"N", "D"}:
            good |= {_LARGE, _LATE} if "D" in kinds else {_LARGE}
        return good

    def _values(self, table: Table, names: set[str]) -> dict[str, list[str | None]]:
        """Literals of surrogate rows, two values of one row in the order that CHECKs demand."""
        arrays = {name: self._array(table, name) for name in names}
        for low, high in checked_orders(table):
            scale = scale_of(table.column(low).type)
            if low in arrays and high in arrays and scale == scale_of(table.column(high).type):
                arrays[low], arrays[high] = _ordered(scale, arrays[low], arrays[high])
        return {name: array.cast(pa.string()).to_pylist() for name, array in arrays.items()}

    def _array(self, table: Table, name: str) -> pa.Array:
        column = table.column(name)
        # The same values as long as the column has the same formats.
        about = column, tuple(check for check in table.checks if name in check.columns)
        if about not in self._arrays:
            self._arrays[about] = self._draw(table, column)
        return self._arrays[about]

    def _draw(self, table: Table, column: Column) -> pa.Array:
        """Surrogate values as a load draws them."""
        pattern = column_pattern(table, column)
        if role_of(table, column) != "modelled" and pattern is None:
            space = value_space(table, column, None, _ROWS)
            if space is not None:
                return space.nth(np.arange(_ROWS) % max(space.capacity, 1))
        rng = generator(0, "rehearsal", table.key, column.name)
        settings = self._config.get(column.name, ColumnConfig())
        plan = reader(column, table, settings, self._delta)
        codec = plan.finish(_released(plan))
        codes = {}
        for key, domain in codec.domains.items():
            drawn = rng.integers(domain.size, size=_ROWS)
            # The ends of a range are what an expression is most likely to refuse. Those of other
            # columns are in other rows, so that each is judged by itself.
            at = 2 * column.position
            drawn[at % _ROWS], drawn[(at + 1) % _ROWS] = 0, domain.values - 1
            codes[key] = drawn.astype(domain.dtype)
        values = codec.decode(codes, rng, _ROWS)
        return values if pattern is None else pattern.replace_bad(values, rng)

    def _is_free(self, name: str) -> bool:
        """Whether a column may have a format: no reference, and nothing that the config says."""
        column = self._table.column(name)
        # Paths say nothing of a document's other keys.
        column_config = self._config.get(name, ColumnConfig()).model_copy(update={"paths": {}})
        if column_config != ColumnConfig() or role_of(self._table, column) not in (
            "modelled",
            "minted",
        ):
            return False
        # A range would leave a key too few values.
        unique = any(column.name in item.columns for item in self._table.unique_sets)
        return not unique or column.type.category == "S"

    def _line(self, item: Stored) -> str:
        state = self._states.get(item.what, "")
        with suppress(KeyError):
            state = psycopg.errors.lookup(state).__name__
        why = f"made values give {state or 'no value that it takes'}"
        named = ", ".join(item.columns)
        return (
            f"{self._table.key}: {item.what}: {why}, so that the clone may lack it or rows. "
            f"Say in the config what {named} may hold (values, min and max, or a rule)."
        )


def _connected(items: Sequence[Stored]) -> Iterator[list[Stored]]:
    """Groups of expressions that share columns."""
    left = list(items)
    while left:
        group, names = [left.pop(0)], set[str]()
        while more := [i for i in left if names.union(*(g.columns for g in group)) & {*i.columns}]:
            group += more
            left = [item for item in left if item not in more]
        yield group


def _released(plan: ColumnReader) -> dict[str, ReleasedDomain]:
    """What a fit of no rows would release."""
    domains: dict[str, ReleasedDomain] = {}
    for need in plan.needs:
        if isinstance(need, (BoundsNeed, CategoriesNeed)):
            domains[need.attribute] = need.default
        else:
            domains[need.attribute] = Step()
    return domains


def _ordered(scale: Scale | None, low: pa.Array, high: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The values of two columns, those of a row exchanged where the first is greater."""
    if scale is None:
        return low, high
    both = pc.and_(low.is_valid(), high.is_valid())
    swap = pc.and_(pa.array(scale.points_of(low) > scale.points_of(high)), both)
    one, other = low.cast(pa.string()), high.cast(pa.string())
    return pc.if_else(swap, other, one), pc.if_else(swap, one, other)
