"""The rehearsal: formats in which made values pass the expressions of the schema, before a budget.

A target evaluates more than CHECKs for every row: generated columns, indexes on expressions, ranges
of two columns, bounds of partitions, domains. So, before consent and before anything is measured,
the target's own PostgreSQL evaluates them on surrogate rows of the plan, in the empty schema that a
rehearsal of the load makes and undoes. Where values fail, the columns that the expression reads try
formats in a fixed order (`privbench.encoding.formats`), one column after another, each taking the
first of those with which most rows pass. They become part of the model's schema, as CHECKs and
templates, so that every load draws the same values.

*Privacy.* Everything here is a function of the catalog and the config (P3): surrogate rows come
from the encoders' plans with default domains and a fixed seed, and the expressions read no row of
the source. Two databases with one schema choose the same formats, whatever their rows. So formats
are public, like the schema that they follow from, and no event is charged for them.

What the server lacks (an extension, a function, a feature) is no finding, nor is what takes too
long: only errors of values are. Once all of them took a minute, the formats found so far stay. What
no format passes is named, and the load leaves it out.
"""

from __future__ import annotations

import re
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
from privbench.encoding import BoundsNeed, CategoriesNeed, ColumnReader, Decimals, reader, role_of
from privbench.encoding.base import Released
from privbench.encoding.formats import Choice, Format, choices, formatted
from privbench.encoding.keys.columns import modelled_values
from privbench.encoding.keys.placeholders import random_uuids, value_space
from privbench.encoding.unmodelled import is_unknown, refuse_unknown
from privbench.errors import DatabaseError, PrivbenchError, SchemaError, UsageError
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import Catalog
from privbench.postgres.connect import connect
from privbench.postgres.ddl import Ddl
from privbench.postgres.embedded import any_server
from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.rehearsal import FALSE, PASSED, Stored, Trial, stored
from privbench.postgres.repair.rows import Rows
from privbench.postgres.statement import build, run
from privbench.rng import generator
from privbench.rules.facts import orders
from privbench.rules.texts import column_pattern, unkept_checks
from privbench.schema import Schema, Table

#: Surrogate rows of a table.
_ROWS = 16
#: Formats of one column that one statement tries.
_AT_ONCE = 16
#: Turns over all columns of an expression, as the format of one may need that of another.
_TURNS = 3
#: SQLSTATE of a text that is too long; and outcomes of rows that break a CHECK, of a domain too.
_CUT, _BROKEN = "22001", (FALSE, "23514")
#: Of a number, and of a time, that is out of range.
_LARGE, _LATE = "22003", "22008"
#: An expression whose broken rows a load repairs needs this share of rows that pass.
_ENOUGH = 0.25
#: Most columns that one search looks at: the number of its trials grows with them.
_COLUMNS = 12

#: A cast to another type than a text.
_CAST = re.compile(r"::(?!text|char|bpchar|varchar|citext)")
#: The role, and the database, of a server of our own.
_ROLE = "rehearsal"

#: Chosen formats, each with its alternatives; and how many rows each expression takes.
_Chosen = dict[Choice, tuple[Format, ...]]
_Passes = dict[str, int]


def rehearse_expressions(loader: Loader, catalog: Catalog, config: Config) -> Catalog:
    """The catalog with formats for its columns, and a line for each expression that none passes.

    To be called within `Loader.rehearsal`. Tables that the config declares public are copied as
    they are, and not looked at.

    Raises:
        SchemaError: A NOT NULL column has a type of which no value is known, and none was found.
    """
    schema = catalog.schema
    sections = roles.sections(schema, config)
    private = [t for t in schema if sections[t.key].role != "public"]
    clone = Rows(loader.connection, map(loader.table, private))
    checks = {
        t.key: {c.name for c in unkept_checks(t)}
        | {c.name for c in t.checks if _CAST.search(c.expression)}
        for t in private
    }
    unknown = {t.key: {c.name for c in t.columns if is_unknown(c)} for t in private}
    listed = stored(clone, checks, unknown)
    trial, tables, lines = Trial(clone), {t.key: t for t in schema}, []
    for table in private:
        search = _Search(trial, table, sections[table.key], config.privacy.delta, listed[table.key])
        tables[table.key], found = search.run()
        lines += found
    return replace(
        catalog,
        schema=replace(schema, tables=tuple(tables[t.key] for t in schema)),
        rehearsed=True,
        findings=tuple(lines),
    )


def rehearse_apart(catalog: Catalog, config: Config, reporter: Reporter) -> Catalog:
    """`rehearse_expressions` in a server of this process, for a fit that knows no target.

    The DDL is judged as that of a stranger, so no function of the source runs, and its statements
    run as a role that owns that server's empty database alone. If there is no such server, or it
    cannot make the schema, that is said, and the catalog stays as it is.
    """
    if not _is_limited(catalog.schema):
        return replace(catalog, rehearsed=True)
    try:
        with reporter.stage("rehearse the schema"):
            with database_errors("preparing a rehearsal"):
                dsn = _scratch()
                _extend(dsn, catalog.ddl)
            found = Loader(dsn, catalog.schema, catalog.ddl, trust=False, as_role=_ROLE)
            with found as loader, loader.rehearsal():
                return rehearse_expressions(loader, catalog, config)
    except SchemaError:
        raise
    except (UsageError, DatabaseError) as error:
        said = "expressions of the schema are not rehearsed, so that a load may leave some out"
        reporter.say(f"{said}: {error.message}")
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
        for extension in ddl.script(trust=False).extensions:
            space = extension.schema or "public"
            with suppress(psycopg.Error), connection.transaction():
                # The schema may hold tables as well, which the role makes.
                run(
                    connection,
                    build("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}", space, _ROLE),
                )
                run(connection, extension.text.encode())
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
        self._trial, self._table = trial, table
        self._config, self._delta = section.columns, delta
        self._listed, self._plain = listed, dict[str, list[str | None]]()
        self._states: dict[str, str] = {}

    def run(self) -> tuple[Table, list[str]]:
        """The table with its formats, and a line for every expression that keeps failing."""
        passes = self._passes(self._listed, {})
        chosen: _Chosen = {}
        for group in _connected([item for item in self._listed if item.what in passes]):
            if any(self._fails(item, passes) for item in group):
                chosen |= self._choose(group)
        table = formatted(self._table, chosen)
        passes = self._passes(self._listed, chosen)
        failing = [i for i in self._listed if i.what in passes and self._fails(i, passes)]
        # A load repairs such rows, or puts the CHECK back as NOT VALID and names it.
        failing = [i for i in failing if not (i.is_check and self._states[i.what] in _BROKEN)]
        for column in table.columns:
            refuse_unknown(table.key, column)
        return table, [self._line(item) for item in failing]

    def _fails(self, item: Stored, passes: _Passes) -> bool:
        return passes[item.what] < (_ENOUGH if item.repaired else 1) * _ROWS

    def _choose(self, group: Sequence[Stored]) -> _Chosen:
        """The formats with which most rows pass some expressions."""
        names = [c.name for c in self._table.columns if any(c.name in i.columns for i in group)]
        free = [name for name in names[:_COLUMNS] if self._is_free(name)]
        offered = choices(self._table, free, [item.text for item in group])
        chosen: _Chosen = {}
        for _ in range(_TURNS):
            before = dict(chosen)
            for choice in offered:
                if self._trial.over:
                    return chosen
                some = [item for item in group if set(choice.columns) & set(item.columns)]
                passes = self._passes(some, chosen)
                if any(count < _ROWS for count in passes.values()):
                    self._improve(choice, some, chosen, passes)
            if chosen == before:
                break
        self._widen(group, chosen, offered)
        return chosen

    def _improve(
        self, choice: Choice, some: Sequence[Stored], chosen: _Chosen, before: _Passes
    ) -> None:
        """Choose the first of the formats with which most rows pass, if it is better than now.

        Some formats have to be all that an expression of their columns was lacking (`settles`).
        """
        best = sum(before.values())
        read = [item.what for item in some if {*item.columns} >= {*choice.columns}]
        for first in range(0, len(choice.formats), _AT_ONCE):
            few = choice.formats[first : first + _AT_ONCE]
            tried = [{**chosen, choice: (item,)} for item in few]
            for item, passes in zip(few, self._all_passes(some, tried), strict=True):
                settled = any(
                    before.get(what, _ROWS) < passes.get(what, 0) == _ROWS for what in read
                )
                if (count := sum(passes.values())) > best and (settled or not choice.settles):
                    best, chosen[choice] = count, (item,)
            if best == _ROWS * len(some):
                break

    def _widen(self, group: Sequence[Stored], chosen: _Chosen, offered: Sequence[Choice]) -> None:
        """Drop formats that nothing needs; allow all values, and more values of keys, that pass."""
        whole = self._passes(group, chosen)
        if self._trial.over:
            return
        for choice in list(chosen):
            others = {other: formats for other, formats in chosen.items() if other != choice}
            if self._passes(group, others) == whole:
                del chosen[choice]
        keyed = {choice.columns for choice in chosen if choice.keys}
        for choice in offered:
            if choice not in chosen and (not choice.keys or choice.columns not in keyed):
                continue
            first = chosen.get(choice, choice.formats)[0]
            if not choice.keys and first.value is None:
                continue
            alike = [f for f in choice.formats if choice.keys or f.value is not None]
            alike = [*([choice.absent] if choice.keys else []), *alike]
            passed = self._all_passes(group, [{**chosen, choice: (item,)} for item in alike])
            good = [item for item, passes in zip(alike, passed, strict=True) if passes == whole]
            if choice.keys and not (good and good[0].constant):
                good = good[:1]
            if good:
                chosen[choice] = tuple(item for item in good if item.constant == good[0].constant)

    def _passes(self, some: Sequence[Stored], chosen: _Chosen) -> _Passes:
        """How many surrogate rows each expression takes; none for one that says nothing."""
        return self._all_passes(some, [chosen])[0]

    def _all_passes(self, some: Sequence[Stored], tried: Sequence[_Chosen]) -> list[_Passes]:
        """The same for several choices, which PostgreSQL evaluates at once."""
        names = {name for item in some for name in item.columns}
        values: dict[str, list[str | None]] = {name: [] for name in names}
        void = set[int]()
        for chosen in tried:
            changed = {name for choice in chosen for name in choice.columns}
            try:
                here = self._values(formatted(self._table, chosen), names, changed)
            except (PrivbenchError, ValueError, pa.ArrowException):
                # A format that leaves a column no value beside its CHECKs.
                here = {name: [None] * _ROWS for name in names}
                void.add(len(values[next(iter(names))]) // _ROWS)
            for name, texts in here.items():
                values[name] += texts
        cut = {name: self._too_long(name, texts) for name, texts in values.items()}
        found: list[_Passes] = [{} for _ in tried]
        for item in some if tried else ():
            outcomes = self._trial.outcomes(item, values)
            if outcomes is None:
                continue
            # The cast of a trial cuts a text that COPY refuses.
            bad = set[int]().union(*(cut[name] for name in item.columns))
            outcomes = [_CUT if at in bad else text for at, text in enumerate(outcomes)]
            good = self._good(item)
            taken = [text in good for text in outcomes]
            for at, passes in enumerate(found):
                some_taken = sum(taken[at * _ROWS : (at + 1) * _ROWS])
                passes[item.what] = 0 if at in void else some_taken
            self._states[item.what] = next((s for s in outcomes if s not in good), PASSED)
        return found

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

    def _too_long(self, name: str, texts: Sequence[str | None]) -> set[int]:
        """Rows whose text is longer than the column's type allows."""
        type_ = self._table.column(name).type
        most = type_.length if type_.category == "S" else None
        return {at for at, text in enumerate(texts) if most is not None and len(text or "") > most}

    def _values(
        self, table: Table, names: set[str], changed: set[str]
    ) -> dict[str, list[str | None]]:
        """Texts of surrogate values, those of one row in the order that CHECKs demand."""
        pairs = [order.columns for order in orders(table)]
        tied = {name for pair in pairs for name in pair}
        for name in names - tied - changed:
            if name not in self._plain:
                self._plain[name] = _texts(self._array(table, name))
        arrays = {n: self._array(table, n) for n in names & (tied | changed)}
        for low, high in pairs:
            if low in arrays and high in arrays:
                _order(table, arrays, low, high)
        made = {name: _texts(array) for name, array in arrays.items()}
        return {name: made[name] if name in made else self._plain[name] for name in names}

    def _array(self, table: Table, name: str) -> pa.Array:
        column = table.column(name)
        rng = generator(0, "rehearsal", table.key, name)
        numbers = np.arange(_ROWS)
        if role_of(table, column) != "modelled":
            pattern = column_pattern(table, column)
            if pattern is not None:
                made = pattern.distinct(_ROWS, rng)
                return made.take(pa.array(numbers % max(len(made), 1)))
            if column.type.base == "uuid":
                return random_uuids(_ROWS, rng)
            space = value_space(table, column, None, _ROWS)
            none = pa.nulls(_ROWS, pa.string())
            return none if space is None else space.nth(numbers % max(space.capacity, 1))
        plan = reader(column, table, self._config.get(name, ColumnConfig()), self._delta)
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
        pattern = column_pattern(table, column)
        return values if pattern is None else pattern.replace_bad(values, rng)

    def _is_free(self, name: str) -> bool:
        """Whether a column may have a format: no reference, and nothing that the config says."""
        column = self._table.column(name)
        said = self._config.get(name, ColumnConfig())
        if said != ColumnConfig() or role_of(self._table, column) not in ("modelled", "minted"):
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


def _released(plan: ColumnReader) -> dict[str, Released]:
    """What a fit of no rows would release."""
    found: dict[str, Released] = {}
    for need in plan.needs:
        if isinstance(need, (BoundsNeed, CategoriesNeed)):
            found[need.attribute] = need.default
        else:
            found[need.attribute] = Decimals(None)
    return found


def _order(table: Table, arrays: dict[str, pa.Array], low: str, high: str) -> None:
    """Exchange two values of a row where the first is greater."""
    spaces = [modelled_values(table, table.column(name), None, _ROWS) for name in (low, high)]
    one, other = spaces
    if one is None or other is None or one.scale is None or one.scale != other.scale:
        return
    left, right = one.to_points(arrays[low]), other.to_points(arrays[high])
    both = pc.and_(arrays[low].is_valid(), arrays[high].is_valid())
    swap = pc.and_(pa.array(left > right), both)
    texts = [arrays[name].cast(pa.string()) for name in (low, high)]
    arrays[low] = pc.if_else(swap, texts[1], texts[0])
    arrays[high] = pc.if_else(swap, texts[0], texts[1])


def _texts(array: pa.Array) -> list[str | None]:
    """The literals of an array."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_binary(array.type):
        return [None if value is None else f"\\x{value.hex()}" for value in array.to_pylist()]
    texts: list[str | None] = array.cast(pa.string()).to_pylist()
    return texts
