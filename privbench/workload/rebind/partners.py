"""Replaces texts that a clone lacks by the clone's texts of the same rank, for a comparison.

A clone has surrogate values in place of names that the release does not contain. A query for such a
name finds no rows in the clone, even if the frequencies are right. In every column of text, values
that the clone lacks are paired with values that only the clone has, both in order of frequency.

This reads the source, so all results are CONFIDENTIAL. The clone's server sees queries whose texts
were chosen by ranks in the source, so it must belong to the owner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import psycopg
from sqlglot import exp
from sqlglot.errors import SqlglotError

from privbench.pgsql import SqlError
from privbench.postgres.connect import SELECT, Connection
from privbench.postgres.statement import build
from privbench.schema import Schema
from privbench.workload.query import Query, Workload, parse
from privbench.workload.rebind.columns import ODD, Operand, Resolver, Tables
from privbench.workload.rebind.marks import Mark, mark
from privbench.workload.rebind.sites import sites

#: Most values of a column that are paired, and most characters of all of them; both easily fit into
#: memory. The literals of a column with more values are not replaced.
_MOST, _LONGEST = 200_000, 64 * 2**20
_TEXT = "S"

#: Gives the clone's text of the same rank; None if the clone has the text, or the source lacks it.
Partner = Callable[[Operand, str], str | None]


class Partners:
    """Pairs of texts by rank, column by column; both databases are only read."""

    def __init__(self, source: Connection, clone: Connection) -> None:
        self._sides = (source, clone)
        self._pairs: dict[tuple[str, str], dict[str, str]] = {}

    def __call__(self, operand: Operand, old: str) -> str | None:
        """See `Partner`."""
        if operand.steps or operand.column.type.category != _TEXT:
            return None
        key = (operand.table.key, operand.column.name)
        if key not in self._pairs:
            self._pairs[key] = paired(*(self._values(side, operand) for side in self._sides))
        return self._pairs[key].get(old)

    def _values(self, side: Connection, operand: Operand) -> list[str]:
        """Distinct texts, the most frequent first; none if they are too many or cannot be read."""
        query = SELECT + build(
            "{text} FROM {table} WHERE {column} IS NOT NULL GROUP BY {text}"
            ' ORDER BY pg_catalog.count(*) DESC, {text} COLLATE pg_catalog."C" LIMIT {most}',
            text=build(operand.column.type.text_form, operand.column.name),
            table=operand.table.name,
            column=operand.column.name,
            most=_MOST + 1,
        )
        found: list[str] = []
        room = _LONGEST
        try:
            with side.transaction(force_rollback=True), side.cursor() as cursor:
                for (text,) in cursor.stream(query):
                    found.append(str(text))
                    room -= len(text)
                    if len(found) > _MOST or room < 0:
                        return []
        except psycopg.Error:
            return []
        return found


def paired(source: Sequence[str], clone: Sequence[str]) -> dict[str, str]:
    """A substitute for each text that the clone lacks: the text of its rank that the source lacks.

    Both lists are distinct texts, the most frequent first.

    >>> paired(["Oslo", "Bern", "Rome"], ["Bern", "xava", "tuke"])
    {'Oslo': 'xava', 'Rome': 'tuke'}
    >>> paired(["Oslo", "Rome"], ["xava"])
    {'Oslo': 'xava'}
    """
    here, there = set(source), set(clone)
    lost, new = (t for t in source if t not in there), (t for t in clone if t not in here)
    return dict(zip(lost, new, strict=False))


def by_rank(workload: Workload, schema: Schema, partner: Partner) -> Workload:
    """The queries with texts that have a partner, which replaces them: CONFIDENTIAL.

    Only texts in an equality with a column or in an IN list are replaced. The rest of a query
    stays, except comments and unusual names that the query itself defines. Queries that cannot be
    parsed are left out.

    The changed queries keep their ids and state no answers. ``schema`` is the source's.
    """
    tables = Tables(schema)
    found = (_changed(query, tables, partner) for query in workload)
    return Workload(workload.name, tuple(q for q in found if q is not None), confidential=True)


def _changed(query: Query, tables: Tables, partner: Partner) -> Query | None:
    try:
        marked = mark(query.sql, tables.names)
        tree = parse(marked.text)
        if not isinstance(tree, exp.Query):
            return None
        places = sites(tree, Resolver(tree, tables, marked.marks))
    except (SqlError, SqlglotError, RecursionError, *ODD):
        return None
    new = {
        site.mark.number: text
        for site in places
        if site.role == "value" and site.shape in ("equal", "member") and site.operand is not None
        if (text := partner(site.operand, site.mark.original)) is not None
    }

    def put(one: Mark) -> str:
        # A bare number stays as it is; a sign before it is part of the text around the mark.
        old = one.original if one.kind == "number" else one.written(one.original)
        return one.written(new[one.number]) if one.number in new else old

    if not new or any(one.kind in ("parameter", "bits") for one in marked.marks):
        return None
    return replace(query, sql=marked.render(put).strip(), card=None, template=None, parameters=())
