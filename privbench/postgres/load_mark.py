"""The mark of a resumable load in its target: a table of the copied parts, with a comment.

The mark is created with the schema and dropped in the last step, so that a database has it exactly
as long as the load is unfinished. The entry of a part is inserted first and committed with its
rows: any other worker that copies the same part, even one that was believed dead, waits for that
commit and then finds the part copied.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import LiteralString

import psycopg
import pyarrow as pa
from psycopg import sql

from privbench import __version__
from privbench.errors import TargetError
from privbench.limits import UNFINISHED
from privbench.postgres import catalog
from privbench.postgres.connect import Connection
from privbench.postgres.copy_in import copy_rows
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build, run
from privbench.postgres.transaction import TargetTransaction
from privbench.schema import Table, TableName

#: No model may have a schema of this name, and no source may be read that has one.
PARTS = TableName(UNFINISHED, "parts")
_SAID = "UNFINISHED LOAD: rows are missing, and rules do not hold. It is of "
#: The most characters of a comment that are read; comments made by loads are shorter.
_LONGEST = 500
_COMMENT: LiteralString = """
SELECT pg_catalog.obj_description(c.oid, 'pg_class') AS said
FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c
  ON c.relnamespace = n.oid AND c.relname = %(name)s::pg_catalog.text
WHERE n.nspname = %(schema)s::pg_catalog.text
"""
_MADE: LiteralString = """
CREATE TABLE {} (relation pg_catalog.text, part pg_catalog.int8,
  whole pg_catalog.bool NOT NULL DEFAULT true, PRIMARY KEY (relation, part))
"""
_TAKEN: LiteralString = "INSERT INTO {} (relation, part) VALUES ({}, {}) ON CONFLICT DO NOTHING"
_UNLOGGED: LiteralString = """
SELECT FROM pg_catalog.pg_class c WHERE c.relpersistence = 'u' AND (c.oid = {0}::pg_catalog.regclass
  OR c.oid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree({0}) AS t))
"""
_REFUSED: LiteralString = "UPDATE {} SET whole = false WHERE relation = {} AND part = {}"


@dataclass(frozen=True, slots=True)
class Mark:
    """The clone that a target is being filled with; the same mark means the same rows."""

    model: str  # hash of the model
    scale: float  # size of the clone
    seed: int | None  # seed of the sampling; None matches any seed
    programs: bool  # whether programs of the model are made in the target
    version: str = __version__  # of privbench

    def seeded(self) -> Mark:
        """Return the same mark, with a random seed if it has none."""
        return self if self.seed is not None else replace(self, seed=secrets.randbits(63))

    def found(self, connection: Connection) -> Mark | None:
        """Return the target's mark, or None; raise a TargetError if it differs from this mark."""
        comment = _mark_comment(connection)
        mark = None if comment is None else _parse_mark(comment)
        if comment is not None and (mark is None or self not in (mark, replace(mark, seed=None))):
            raise TargetError(
                f"the target is the unfinished load of something else. {comment}",
                remedy="Go on with what is named there, or say --replace to begin anew.",
            )
        return mark

    def make(self, connection: Connection) -> None:
        """Mark a target database as being filled by a resumable load."""
        comment = sql.Literal(f"{_SAID}{json.dumps(asdict(self))}")
        with database_errors("marking the target as unfinished"):
            run(connection, build("CREATE SCHEMA {}", PARTS.schema))
            run(connection, build(_MADE, PARTS))
            run(connection, build("COMMENT ON TABLE {} IS {}", PARTS, comment))

    def remove(self, connection: Connection) -> None:
        """Remove the mark of a resumable load, in the last step of its last transaction."""
        with database_errors("removing the mark of the unfinished load"):
            run(connection, build("DROP TABLE {}", PARTS))
            run(connection, build("DROP SCHEMA {}", PARTS.schema))


def refuse_unfinished(connection: Connection) -> None:
    """Refuse, by a TargetError, a database that a resumable load has not finished."""
    comment = _mark_comment(connection)
    if comment is not None:
        raise TargetError(
            f"the database is not whole. {comment}",
            remedy="Go on with the same privbench load --resumable, or begin anew with --replace.",
        )


def parts_there(connection: Connection) -> dict[tuple[str, int], bool]:
    """Return for every copied part whether the target took all its rows, by table key and number.

    Waits, within a time limit, for parts that are being copied; none can be copied afterwards.
    """
    with database_errors("reading which parts are loaded"):
        run(connection, build("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", PARTS))
        query = build("SELECT relation, part, whole FROM {}", PARTS)
        listed = run(connection, query).fetchall()
    return {(str(relation), int(part)): bool(whole) for relation, part, whole in listed}


def outlasts(connection: Connection, table: Table) -> bool:
    """Return whether a table survives a crash of the server, as the mark does; UNLOGGED do not."""
    with database_errors("asking for UNLOGGED tables", table.key):
        query = build(_UNLOGGED, sql.Literal(build("{}", table.name).as_string()))
        return not run(connection, query).rowcount


def copy_part(
    transaction: TargetTransaction,
    mark: Mark,
    table: Table,
    number: int,
    columns: Sequence[str],
    batches: Iterable[pa.Table],
) -> None:
    """Copy a part in its own transaction unless it was copied.

    Raises a TargetError if the target's mark differs.

    Args:
        transaction: A connection to the target.
        mark: The mark that the target must have.
        table: The table as the target's own catalog states it.
        number: The number of the part.
        columns: Columns of the batches.
        batches: The rows, which are not made if the part is there. If the server cannot compute a
            generated column of one of them, no row is copied, and the part's entry says so.
    """
    connection, part = transaction.connection, (PARTS, sql.Literal(table.key), number)
    transaction.begin()
    with database_errors("loading a part of a table", table.key):
        unmarked = run(connection, build(_TAKEN, *part)).rowcount
    # The mark cannot be dropped now: a load that begins anew waits for this transaction.
    mark.found(connection)
    with database_errors("loading rows", table.key):
        if unmarked:
            kinds = [table.column(name).type for name in columns]
            try:
                with connection.transaction():
                    copy_rows(connection, build("{}", table.name), columns, batches, kinds)
            except psycopg.DataError:
                if not any(column.generated for column in table.columns):
                    raise
                run(connection, build(_REFUSED, *part))
    transaction.commit()


def _mark_comment(connection: Connection) -> str | None:
    """The comment of a mark (it may be empty), safe to print on a terminal; None without a mark."""
    rows = catalog.ask(connection, _COMMENT, {"schema": PARTS.schema, "name": PARTS.name})
    # Anybody may have written the comment: it is cut, and terminal control characters are escaped.
    return ascii(rows[0].said or "")[1:-1][:_LONGEST] if rows else None


def _parse_mark(comment: str) -> Mark | None:
    """The mark that a comment states, if it states one."""
    try:
        mark = Mark(**json.loads(comment.removeprefix(_SAID)))
    except (ValueError, TypeError):
        return None
    return mark if type(mark.seed) is int and mark.seed >= 0 else None
