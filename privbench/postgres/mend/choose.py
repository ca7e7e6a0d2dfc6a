"""Rows that break a CHECK take one of its arms, by lot; the likelier, the less is lost by it.

What an arm would make of a row is judged by PostgreSQL before the row is changed: the CHECK must
then be kept, and no other that the row keeps now may be broken.

Columns are drawn well by themselves, and badly together: of 5,000 lines 4,650 have a product and
350 are headings, which have none, but 330 come out with both. A column's rare state tells more than
its usual one: the line stays a heading and loses its product. So a change costs the surprise of
what is lost, twice, and an arm that of the rarest that it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.mend import rows
from privbench.postgres.mend.arms import arms
from privbench.postgres.mend.atoms import Arm, Change
from privbench.postgres.mend.rules import Rule
from privbench.schema import Table

#: What any change costs, and that of the value of a column which says what kind of row it is.
_PLAIN, _KIND = 0.3, 3.0
#: What is rarer than this may be so by noise.
_LEAST = 0.05
#: Values that are drawn from at most, and rows that tell how usual a condition is.
_DRAWN, _SEEN = 1000, 10_000


def choose(connection: Connection, rule: Rule, near: Sequence[Rule], columns: Iterable[str]) -> int:
    """Let rows that break a rule take an arm of it.

    Args:
        connection: To the target.
        rule: The rule.
        near: Rules of the table that speak of its columns, itself among them.
        columns: Columns that may change.

    Returns:
        How many rows were changed.
    """
    columns = tuple(columns)
    across = [item.text for item in near if len(item.uses) > 1]
    changed = 0
    for texts in ([rule.text], across) if len(across) > 1 else ([rule.text],):
        found = arms(rule.table, texts, columns)
        if found and rule.breaks(connection):
            changed += _settle(connection, rule, near, found)
    return changed


def _settle(connection: Connection, rule: Rule, near: Sequence[Rule], found: Sequence[Arm]) -> int:
    """Try all arms at once; where PostgreSQL refuses one, one after the other."""
    for group in ([found], [[arm] for arm in found]):
        changed, refused = 0, False
        for some in group:
            try:
                with connection.transaction():
                    changed += rows.pair_off(connection, _statement(rule, near, some))
            except psycopg.Error:
                refused = True
        if changed or not refused:
            return changed
    return 0


@dataclass(frozen=True, slots=True)
class _Draw:
    """Values of a column in rows that meet a condition; or in rows of the table it refers to."""

    name: sql.Composable
    query: sql.Composable


def _statement(rule: Rule, near: Sequence[Rule], found: Sequence[Arm]) -> sql.Composed:
    table = rule.table
    wanted = dict.fromkeys(change.column for arm in found for change in arm.changes)
    uses = sorted({name for item in near for name in item.uses} | set(wanted))
    plain = [c.name for c in table.columns if not c.generated]
    made = [name for name in uses if name not in plain]
    names = plain if made else uses
    draws = _draws(rule, found)
    conditions = dict.fromkeys(change.condition for arm in found for change in arm.changes)
    shares = {condition: place for place, condition in enumerate(conditions, start=1)}
    tried = [_tried(rule, near, arm, names, draws, shares) for arm in found]
    return sql.SQL(
        "WITH {draws} shares AS MATERIALIZED ({shares}), tried AS MATERIALIZED ({tried}),"
        " chosen AS MATERIALIZED (SELECT DISTINCT ON (tableoid, ctid) * FROM ({whole}) AS {alias}"
        " WHERE {kept} ORDER BY tableoid, ctid, {turn})"
        " UPDATE {table} AS broken SET {assignments} FROM chosen"
        " WHERE broken.ctid = chosen.ctid AND broken.tableoid = chosen.tableoid"
    ).format(
        draws=sql.SQL("").join(
            sql.SQL("{} AS MATERIALIZED ({}), ").format(draw.name, draw.query)
            for draw in draws.values()
        ),
        shares=_shares(table, shares),
        tried=sql.SQL(" UNION ALL ").join(tried),
        whole=_whole(table, names, made, len(near)),
        alias=sql.Identifier(table.name.name),
        kept=_kept(rule, near),
        turn=_TURN,
        table=rows.name_of(table),
        assignments=sql.SQL(", ").join(
            sql.SQL("{0} = chosen.{0}").format(sql.Identifier(name)) for name in wanted
        ),
    )


_TURN = sql.Identifier("privbench turn")


def _before(place: int) -> sql.Identifier:
    return sql.Identifier(f"privbench before {place}")


def _tried(
    rule: Rule,
    near: Sequence[Rule],
    arm: Arm,
    names: Sequence[str],
    draws: dict[tuple[str, str], _Draw],
    shares: dict[str, int],
) -> sql.Composable:
    """The rows that break the rule, as an arm would make them."""
    changes = {change.column: change for change in arm.changes}
    values = [
        _value(rule.table, changes[name], draws) if name in changes else sql.Identifier(name)
        for name in names
    ]
    listed = [
        sql.SQL("{} AS {}").format(value, sql.Identifier(name))
        for name, value in zip(names, values, strict=True)
    ]
    marks = [
        sql.SQL("({}) AS {}").format(item.broken, _before(number))
        for number, item in enumerate(near)
    ]
    return sql.SQL(
        "SELECT tableoid AS tableoid, ctid AS ctid,"
        # The least of exponential draws: arms are taken in proportion to exp(-cost).
        " -ln(1 - random()) * exp({lost} + {made}) AS {turn}, {columns} FROM {table} WHERE {broken}"
    ).format(
        lost=sql.SQL(" + ").join(
            _if_changed(item, _lost(rule.table, item, shares)) for item in arm.changes
        ),
        made=sql.SQL("greatest({})").format(
            sql.SQL(", ").join(_if_changed(item, _rare(item, shares)) for item in arm.changes)
        ),
        turn=_TURN,
        columns=sql.SQL(", ").join([*marks, *listed]),
        table=rows.name_of(rule.table),
        broken=rule.broken,
    )


def _if_changed(change: Change, cost: sql.Composable) -> sql.Composable:
    """A cost in rows in which a column changes, 0 in others."""
    return sql.SQL("CASE WHEN {} THEN 0 ELSE {} END").format(_stays(change), cost)


def _share(change: Change, shares: dict[str, int]) -> sql.Composable:
    place = sql.Literal(shares[change.condition])
    return sql.SQL("(SELECT list[{}] FROM shares)").format(place)


def _rare(change: Change, shares: dict[str, int]) -> sql.Composable:
    """What it costs that a column becomes what few are."""
    if change.computed:
        return sql.SQL("0")
    share = _share(change, shares)
    return sql.SQL("-ln(greatest({}, {}))").format(share, sql.Literal(_LEAST))


def _lost(table: Table, change: Change, shares: dict[str, int]) -> sql.Composable:
    """What it costs that a column does not stay as it is."""
    type_ = table.column(change.column).type
    names_kind = type_.kind == "e" or type_.category in "SB"
    kind = names_kind and not change.condition.endswith(("IS NULL", "IS NOT NULL"))
    return sql.SQL("({} - 2 * ln(1 - {}))").format(
        sql.Literal((_KIND if kind else _PLAIN) + change.cost), _share(change, shares)
    )


def _stays(change: Change) -> sql.Composable:
    return sql.SQL("({}) IS TRUE").format(rows.raw(change.condition))


def _value(table: Table, change: Change, draws: dict[tuple[str, str], _Draw]) -> sql.Composable:
    """The column as a change would make it."""
    if change.value is not None:
        new: sql.Composable = rows.raw(change.value)
    else:
        draw = draws[change.column, change.condition].name
        new = sql.SQL(
            "(SELECT list FROM {0})[1 + floor(random() * (SELECT cardinality(list) FROM {0}))::int]"
        ).format(draw)
    return sql.SQL("CASE WHEN {} THEN {} ELSE CAST({} AS {}) END").format(
        _stays(change),
        sql.Identifier(change.column),
        new,
        rows.raw(table.column(change.column).type.sql),
    )


def _draws(rule: Rule, found: Sequence[Arm]) -> dict[tuple[str, str], _Draw]:
    """Values to draw from, by column and condition; rows that keep the rule come first."""
    wanted = {
        (change.column, change.condition): None
        for arm in found
        for change in arm.changes
        if change.value is None
    }
    return {
        pair: _Draw(sql.Identifier(f"drawn {place}"), _drawn(rule, *pair))
        for place, pair in enumerate(wanted)
    }


def _drawn(rule: Rule, column: str, condition: str) -> sql.Composable:
    own = sql.SQL(
        "SELECT {column} AS v FROM {table} WHERE ({condition}) IS TRUE AND {column} IS NOT NULL"
        " AND {within} ORDER BY {kept} DESC, random() LIMIT {most}"
    ).format(
        column=sql.Identifier(column),
        table=rows.name_of(rule.table),
        condition=rows.raw(condition),
        within=rule.within,
        kept=rule.kept,
        most=sql.Literal(_DRAWN),
    )
    from_parent = next(
        (
            _of_parent(key.ref_table.schema, key.ref_table.name, key.ref_columns[0])
            for key in rule.table.foreign_keys
            if key.columns == (column,)
        ),
        None,
    )
    if from_parent is None:
        return sql.SQL("SELECT array_agg(v) AS list FROM ({}) AS listed").format(own)
    return sql.SQL(
        "SELECT coalesce((SELECT array_agg(v) FROM ({}) AS listed),"
        " (SELECT array_agg(v) FROM ({}) AS listed)) AS list"
    ).format(own, from_parent)


def _of_parent(schema: str, table: str, column: str) -> sql.Composable:
    return sql.SQL(
        "SELECT {0} AS v FROM {1} WHERE {0} IS NOT NULL ORDER BY random() LIMIT {2}"
    ).format(sql.Identifier(column), sql.Identifier(schema, table), sql.Literal(_DRAWN))


def _shares(table: Table, shares: Iterable[str]) -> sql.Composable:
    """Shares of the rows that meet each condition, as an array ``list``."""
    counts = [
        sql.SQL("(1.0 + count(*) FILTER (WHERE ({}) IS TRUE)) / (2 + count(*))").format(
            rows.raw(condition)
        )
        for condition in shares
    ]
    return sql.SQL(
        "SELECT ARRAY[{}]::float8[] AS list FROM (SELECT * FROM {} LIMIT {}) AS {}"
    ).format(
        sql.SQL(", ").join(counts),
        rows.name_of(table),
        sql.Literal(_SEEN),
        sql.Identifier(table.name.name),
    )


def _whole(table: Table, names: Sequence[str], made: Sequence[str], marks: int) -> sql.Composable:
    """The rows that are tried, with their generated columns."""
    alias = sql.Identifier(table.name.name)
    if not made:
        return sql.SQL("SELECT * FROM tried AS {}").format(alias)
    computed = [
        sql.SQL("({}) AS {}").format(
            rows.raw(table.column(name).default or "NULL"), sql.Identifier(name)
        )
        for name in made
    ]
    return sql.SQL("SELECT *, {} FROM tried AS {}").format(sql.SQL(", ").join(computed), alias)


def _kept(rule: Rule, near: Sequence[Rule]) -> sql.Composable:
    """Condition of the rows that keep the rule, and break no other that they kept before."""
    others = (
        sql.SQL("({} OR {})").format(_before(place), item.kept)
        for place, item in enumerate(near)
        if item is not rule
    )
    return rows.every([rule.kept, *others])
