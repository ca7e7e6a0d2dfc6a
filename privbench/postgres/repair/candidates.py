"""Repair rows that break a CHECK by trying other values for its columns, judged by PostgreSQL.

A candidate changes one of the CHECK's columns, or all of them. A single column becomes NULL, or the
value of another row of the table (the rows are draws from the model, so that this draws the column
anew), or the value that the CHECK compares it with; all columns together become those of another
row. A candidate must satisfy the CHECK, and break no other rule that the row satisfies now. Of the
candidates that pass, a row takes the cheapest: it changes few columns, and changes columns that
tell the kind of the row (labels) last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

import psycopg
from psycopg import sql

from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import TargetTables
from privbench.postgres.repair.target_checks import TargetCheck, is_label
from privbench.postgres.statement import build, run
from privbench.rules.values import values
from privbench.schema import ForeignKey

#: Candidates of one CHECK, and those of one statement.
MOST, _AT_ONCE = 96, 16
#: Broken rows of one statement, so that all their candidates stay within some gigabytes of disk.
_BATCH = 1_000_000
#: Most rows to draw from, among those that keep the rule and among all; most values of a column.
_POOL, _DRAWN = 50_000, 10_000
#: Draws of a single column, and of all columns of a row.
_DRAWS, _ROWS = 3, 8
#: Costs of changing a column, and one that says what kind of row it is; what is added if the value
#: is computed from others, is NULL, or is one that perhaps no row has. The last two are costs of
#: another row's columns: before all other candidates, and after them, when they may break another
#: rule, which is repaired next. Only the order of costs matters.
_PLAIN, _LABEL, _READ, _EMPTY, _MADE = 1.0, 4.0, 0.2, 0.5, 0.7
_FIRST, _LAST = 0.0, 99.0
_COST, _PICK = sql.Identifier("privbench cost"), sql.Identifier("privbench pick")
_KEEPS = sql.Identifier("privbench keeps")
_OTHERS = sql.Identifier("pg_temp", "privbench others")
_BEST = build("{0} = (SELECT max({0}) FROM {1})", _KEEPS, _OTHERS)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One possible change of a column, of all columns of a foreign key, or of all columns."""

    changes: Mapping[str, sql.Composable]  # the SQL of each column's new value
    cost: float  # the cheapest candidate wins
    # Number of the query that gives the rows to draw values from; None if nothing is drawn.
    draw: int | None = None


def try_candidates(clone: TargetTables, check: TargetCheck, near: Sequence[TargetCheck]) -> None:
    """Change rows that break a rule to the cheapest candidate that satisfies it.

    ``near`` are the rules of the table that read its columns, the rule itself among them.
    """
    trial = _Trial(check, near)
    run(clone.connection, trial.others())
    for items in trial.groups():
        batches = check.batches(clone, _BATCH)
        if not batches:
            break
        for blocks in batches:
            _try(clone, trial, items, blocks)
    clone.run("DROP TABLE {}", _OTHERS)


def _try(
    clone: TargetTables, trial: _Trial, items: Sequence[_Candidate], blocks: tuple[int, int]
) -> None:
    """Try candidates at once; where PostgreSQL refuses one (a cast, an overflow), by halves."""
    try:
        with clone.connection.transaction():
            clone.pair_off(trial.table, trial.statement(items, blocks))
    except psycopg.OperationalError:
        raise
    except psycopg.Error:
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]) if middle else ():
            _try(clone, trial, half, blocks)


class _Trial:
    """The candidates of one rule (see `try_candidates`), the cheapest first."""

    def __init__(self, check: TargetCheck, near: Sequence[TargetCheck]) -> None:
        self._check, self._near, self.table = check, near, check.table
        self._draws: list[sql.Composable] = []
        self._values = values(self.table, check.text, check.spoken, check.value)
        candidates = self._rows()
        for name in check.columns or check.unique:
            candidates += self._column(name)
        for key in check.references:
            candidates += self._reference(key)
        self.candidates = sorted(candidates, key=lambda item: item.cost)[:MOST]

    def groups(self) -> Iterator[tuple[_Candidate, ...]]:
        """Candidates of about the same cost, the cheapest first."""
        for _, group in groupby(self.candidates, lambda item: int(2 * item.cost)):
            while some := tuple(islice(group, _AT_ONCE)):
                yield some

    def others(self) -> sql.Composed:
        """The statement that sets aside the rows to draw from, those that keep the rules first."""
        check = self._check
        keys = [name for key in check.references for name in key.columns]
        near = rows.every(other.kept for other in self._near)
        listed = build(
            "(SELECT {}, ({near})::int + ({near} AND ({}) IS TRUE)::int AS {} FROM {}",
            list(dict.fromkeys((*check.columns, *keys))) or [rows.NULL],
            *(check.condition, _KEEPS, rows.among(check.table, [check.within])),
            near=near,
        )
        return build(
            "CREATE TEMPORARY TABLE {table} AS {all} ORDER BY {keeps} DESC, random() LIMIT {most})"
            " UNION ALL {all} ORDER BY random() LIMIT {most})",
            table=_OTHERS,
            all=listed,
            keeps=_KEEPS,
            most=_POOL,
        )

    def _rows(self) -> list[_Candidate]:
        """All columns of another row at once; of one of its kind, if the rule concerns kinds."""
        check = self._check
        keys = [name for key in check.references for name in key.columns]
        whole = (*check.columns, *keys)
        rest = tuple(name for name in whole if name not in check.labels)
        # Without a reference or a sum to keep, what a row that keeps the rule has fits together
        # better than other values: an order's status stays, its dates follow.
        draws = [(rest, _LAST), (whole, _LAST + 1)]
        computed = any(item.equal and item.reads for item in self._values)
        if not computed and (rest != whole or not check.references):
            draws.append((rest, _FIRST))
        candidates = [
            # In a rule of one column the row has a value, which another value replaces.
            self._draw(names, cost, present=len(whole) == 1)
            for names, cost in draws
            if names
        ]
        again = [replace(item, cost=item.cost + _PLAIN / 2) for item in candidates]
        return candidates + again * (_ROWS - 1)

    def _column(self, name: str) -> list[_Candidate]:
        """Changes of one column to try."""
        check, table = self._check, self.table
        cost = _LABEL if is_label(table, name) else _PLAIN
        candidates = [
            _Candidate(
                {name: rows.raw(item.text)},
                # A value that other columns determine is the right one.
                _PLAIN / 2
                if item.equal and item.reads
                else cost + (_READ if item.reads else _MADE),
            )
            for item in self._values
            # Values that follow from the old ones keep different rows different.
            if item.column == name and (check.columns or name in item.reads)
        ]
        if not table.column(name).not_null:
            candidates.append(_Candidate({name: rows.NULL}, cost + _EMPTY))
        return candidates + [self._draw((name,), cost, present=True)] * (
            _DRAWS if check.columns else 0
        )

    def _reference(self, key: ForeignKey) -> list[_Candidate]:
        """Changes of one reference to try: another target, or NULL."""
        candidates = [self._draw(key.columns, _PLAIN, present=True)] * _DRAWS
        ended = [name for name in key.columns if not self.table.column(name).not_null]
        if ended and (len(ended) == len(key.columns) or key.match != "f"):
            candidates.append(_Candidate(dict.fromkeys(ended, rows.NULL), _PLAIN + _EMPTY))
        return candidates

    def _draw(self, columns: tuple[str, ...], cost: float, *, present: bool) -> _Candidate:
        """Draw columns of another row, of those that keep the rule first."""
        number = len(self._draws)
        slots = [sql.Identifier(f"privbench {number} {place}") for place in range(len(columns))]
        draw = build(
            "SELECT row_number() OVER () - 1 AS {}, own.* FROM"
            " (SELECT {} FROM {} WHERE {} ORDER BY {} DESC, random() LIMIT {}) AS own",
            *(_turn(number), rows.renamed(columns, slots), _OTHERS),
            # Some rows keep the rule for want of a value; the best ones make it true, if any does.
            rows.present(columns) if present else _BEST,
            *(_KEEPS, _DRAWN),
        )
        self._draws.append(draw)
        return _Candidate(dict(zip(columns, slots, strict=True)), cost, number)

    def statement(self, items: Sequence[_Candidate], blocks: tuple[int, int]) -> sql.Composed:
        """Try some candidates in all broken rows of some blocks at once."""
        table, near = self.table, self._near
        changed = dict.fromkeys(name for item in items for name in item.changes)
        uses = {name for check in near for name in check.uses} | set(changed)
        plain = [column.name for column in table.columns if not column.generated]
        # Generated columns of a candidate are computed from all columns.
        generated = [name for name in uses if name not in plain]
        names = plain if generated else sorted(uses)
        alias = sql.Identifier(table.name.name)
        whole = build("tried AS {}", alias)
        if generated:
            computed = [
                build("({}) AS {}", rows.raw(table.column(name).default or "NULL"), name)
                for name in generated
            ]
            whole = build("(SELECT *, {} FROM {}) AS {}", computed, whole, alias)
        draws = sorted({item.draw for item in items if item.draw is not None})
        return build(
            "WITH {draws} broken AS MATERIALIZED (SELECT tableoid AS tableoid, ctid AS ctid,"
            " floor(random() * 1e6)::int AS {pick}, {held} FROM {table} WHERE {bad}"
            " AND ctid >= {low} AND ctid < {high}),"
            " tried AS MATERIALIZED ({tried}),"
            " chosen AS MATERIALIZED (SELECT DISTINCT ON (tableoid, ctid) * FROM {whole}"
            " WHERE {kept} ORDER BY tableoid, ctid, {cost})"
            " UPDATE {table} AS broken SET {assignments} FROM chosen"
            " WHERE broken.ctid = chosen.ctid AND broken.tableoid = chosen.tableoid",
            draws=sql.SQL("").join(
                build("{} AS MATERIALIZED ({}), ", _source(number), self._draws[number])
                for number in draws
            ),
            pick=_PICK,
            held=[*(build("({}) AS {}", o.broken, _before(i)) for i, o in enumerate(near)), *names],
            table=table.name,
            bad=self._check.broken,
            **{
                name: build("{}::tid", sql.Literal(f"({block},0)"))
                for name, block in zip(("low", "high"), blocks, strict=True)
            },
            tried=sql.SQL(" UNION ALL ").join(
                self._tried(item, names, turn) for turn, item in enumerate(items)
            ),
            whole=whole,
            # No other rule may be broken that was kept before, but as a last resort.
            kept=rows.every(
                build("({})", check.kept)
                if check is self._check
                else build("({} OR {} >= {} OR {})", _before(place), _COST, _LAST, check.kept)
                for place, check in enumerate(near)
            ),
            cost=_COST,
            assignments=[build("{0} = chosen.{0}", name) for name in changed],
        )

    def _tried(self, item: _Candidate, names: Sequence[str], turn: int) -> sql.Composable:
        """The broken rows as a candidate would make them; none where there is nothing to draw."""
        table = self.table
        changes = {
            name: build("CAST({} AS {})", value, rows.raw(table.column(name).type.sql))
            for name, value in item.changes.items()
        }
        joined: sql.Composable = rows.NOTHING
        if item.draw is not None:
            joined = build(
                " JOIN {0} ON {1} = ({2} + {3}) % nullif((SELECT count(*) FROM {0}), 0)",
                *(_source(item.draw), _turn(item.draw), _PICK, 7919 * turn),
            )
        return build(
            "SELECT tableoid, ctid, {} + random() / 8 AS {}, {} FROM broken AS {}{}",
            *(item.cost, _COST),
            [
                *map(_before, range(len(self._near))),
                *(build("{} AS {}", changes.get(name, name), name) for name in names),
            ],
            *(table.name.name, joined),
        )


def _turn(number: int) -> sql.Identifier:
    return sql.Identifier(f"privbench turn {number}")


def _source(number: int) -> sql.Identifier:
    return sql.Identifier(f"privbench draws {number}")


def _before(place: int) -> sql.Identifier:
    """Whether the row broke a rule before."""
    return sql.Identifier(f"privbench before {place}")
