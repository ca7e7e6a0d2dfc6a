"""Values that are tried in rows that break a CHECK: what it speaks of, NULL, ended references."""

from __future__ import annotations

import contextlib

import psycopg
from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.mend import rows
from privbench.postgres.mend.proposals import proposals
from privbench.postgres.mend.rules import Rule, ends
from privbench.postgres.statement import run


def propose(connection: Connection, rule: Rule) -> int:
    """Set columns to what the CHECK itself speaks of, as far as fewer rows then break it."""
    left = before = rule.count(connection)[0]
    columns = rule.columns or rule.tied
    tried = proposals(rule.table, rule.text, columns, apart=not rule.columns)
    for name, text in tried if left else ():
        statement = sql.SQL("UPDATE {} SET {} = {} WHERE {}").format(
            rows.name_of(rule.table), sql.Identifier(name), rows.raw(text), rule.broken
        )
        left = _tried(connection, statement, rule, left)
        if not left:
            break
    return before - left


def empty(connection: Connection, rule: Rule) -> int:
    """Set what may be NULL to NULL in rows that are still broken."""
    columns = rule.columns or rule.tied
    names = [name for name in columns if not rule.table.column(name).not_null]
    if not names:
        return 0
    statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(
        rows.name_of(rule.table),
        rows.nulls(names),
        rule.broken,
    )
    return run(connection, statement).rowcount


def end(connection: Connection, rule: Rule) -> int:
    """End references, of every broken row another one, as far as fewer rows are then broken."""
    keys = ends(rule.table, rule.lent)
    before = left = rule.count(connection)[0] if keys else 0
    for place, names in enumerate(keys):
        statement = sql.SQL("UPDATE {} SET {} WHERE {} AND random() < {}").format(
            rows.name_of(rule.table),
            rows.nulls(names),
            rule.broken,
            sql.Literal(1 / (len(keys) - place)),
        )
        left = _tried(connection, statement, rule, left)
    return before - left


def _tried(connection: Connection, statement: sql.Composed, rule: Rule, left: int) -> int:
    """How many rows are broken once a statement has run; it is undone unless it helps."""
    # What PostgreSQL refuses is no help.
    with contextlib.suppress(psycopg.Error), connection.transaction() as point:
        run(connection, statement)
        now = rule.count(connection)[0]
        if now >= left:
            raise psycopg.Rollback(point)
        return now
    return left
