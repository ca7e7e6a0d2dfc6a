"""The mark of an unfinished load in its target: a table of the steps that are done, with a comment.

The mark is created with the schema and dropped in the last step, so that a database has it exactly
as long as the load is unfinished. The entry of a step is inserted first and committed with what the
step does: any other session that does the same step, even one that was believed dead, waits for
that commit and then finds the step done.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from typing import LiteralString

import psycopg
from psycopg import errors, pq, sql

from privbench import __version__
from privbench.errors import TargetError
from privbench.limits import UNFINISHED
from privbench.postgres import catalog
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.locks import lock
from privbench.postgres.statement import build, run
from privbench.postgres.transaction import TargetTransaction, flush_statistics
from privbench.schema import TableName
from privbench.threads import JOBS, cores

#: No model may have a schema of this name, and no source may be read that has one.
STEPS = TableName(UNFINISHED, "steps")
_SAID = "UNFINISHED LOAD: rows are missing, and rules do not hold. It is of "
#: The most characters of a comment that are read; comments made by loads are shorter.
_LONGEST = 500
_COMMENT: LiteralString = """
SELECT pg_catalog.obj_description(c.oid, 'pg_class') AS said
FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c
  ON c.relnamespace = n.oid AND c.relname = %(name)s::pg_catalog.text
WHERE n.nspname = %(schema)s::pg_catalog.text
"""
#: A crash of the server empties UNLOGGED tables: the mark is one if the clone has any.
_UNLOGGED: LiteralString = "SELECT FROM pg_catalog.pg_class WHERE relpersistence = 'u' LIMIT 1"
_MADE: LiteralString = """
CREATE {} TABLE {} (step pg_catalog.text PRIMARY KEY, result pg_catalog.text)
"""
_TAKEN: LiteralString = "INSERT INTO {} (step, result) VALUES ({}, {}) ON CONFLICT DO NOTHING"
_DONE: LiteralString = "UPDATE {} SET result = {} WHERE step = {}"
_TABLES: LiteralString = """
SELECT n.nspname, c.relname, pg_catalog.pg_get_userbyid(c.relowner) = current_user
FROM ROWS FROM (pg_catalog.unnest(%(schemas)s::text[]), pg_catalog.unnest(%(names)s::text[]))
  AS wanted(schema, name)
JOIN pg_catalog.pg_namespace n ON n.nspname = wanted.schema
JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = wanted.name
WHERE c.relkind IN ('r', 'p')
ORDER BY 1, 2
"""
_GONE = "Go on as the role that began, or say --replace to begin anew."
#: Bytes up to which steps share a transaction, which takes some 5 ms in itself: the time in which
#: about as much is copied.
_SMALL = 2**20
#: The step that makes the schema and the mark.
_FIRST = "schema"


@dataclass(frozen=True, slots=True)
class LoadStep:
    """What a transaction of a load does. Its name is unique in the load."""

    name: str
    work: Callable[[TargetTransaction], str]  # does it; the text that it returns is noted
    relations: frozenset[TableName] = frozenset()  # tables that it locks
    shared: bool = False  # whether it may run beside other such steps of the same tables
    size: int = 0  # about as many bytes as it reads or writes
    sequences: frozenset[TableName] = frozenset()  # those that no other step may use meanwhile

    def waits_for(self, other: LoadStep) -> bool:
        """Return whether the two steps may not run at the same time."""
        alone = not (self.shared and other.shared)
        apart = self.relations.isdisjoint(other.relations)
        return (alone and not apart) or not self.sequences.isdisjoint(other.sequences)


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
        """Mark a target database as being filled by a load in several transactions."""
        comment = sql.Literal(f"{_SAID}{json.dumps(asdict(self))}")
        with database_errors("marking the target as unfinished"):
            kind = sql.SQL("UNLOGGED" if run(connection, _UNLOGGED).rowcount else "")
            run(connection, build("CREATE SCHEMA {}", STEPS.schema))
            run(connection, build(_MADE, kind, STEPS))
            run(connection, build("COMMENT ON TABLE {} IS {}", STEPS, comment))
            run(connection, build(_TAKEN, STEPS, sql.Literal(_FIRST), sql.NULL))

    def remove(self, connection: Connection) -> None:
        """Remove the mark, in the last step of the last transaction."""
        with database_errors("removing the mark of the unfinished load"):
            run(connection, build("DROP TABLE {}", STEPS))
            run(connection, build("DROP SCHEMA {}", STEPS.schema))


def is_unfinished(connection: Connection) -> bool:
    """Return whether a database is the unfinished load of something."""
    return _mark_comment(connection) is not None


def refuse_unfinished(connection: Connection) -> None:
    """Refuse, by a TargetError, a database that a load has not finished."""
    comment = _mark_comment(connection)
    if comment is not None:
        raise TargetError(
            f"the database is not whole. {comment}",
            remedy="Go on with the same privbench load, without --one-transaction and "
            "--schema-only, or begin anew with --replace.",
        )


def guard(connection: Connection, names: Sequence[TableName]) -> None:
    """Lock tables until the transaction ends, so that nobody puts others in their place.

    Triggers of another role's table would run as the role of the load, and so would what a view
    calls that stands in the place of one: a TargetError.
    """
    wanted = {"schemas": [n.schema for n in names], "names": [n.name for n in names]}
    with database_errors("asking who owns the tables"):
        for schema, name, _ in run(connection, _TABLES, wanted).fetchall():
            table = TableName(schema, name)
            lock(connection, build("{}", table), str(table))
        tables = run(connection, _TABLES, wanted).fetchall()
    strange = [str(TableName(schema, name)) for schema, name, own in tables if not own]
    if strange:
        raise TargetError(
            f"{strange[0]} in the target belongs to another role than the one that loads.",
            remedy=_GONE,
        )
    here = {TableName(schema, name) for schema, name, _ in tables}
    gone = [str(name) for name in names if name not in here]
    if gone:
        raise TargetError(f"{gone[0]} in the target is no table any more.", remedy=_GONE)


def refuse_crashed(connection: Connection) -> None:
    """Refuse to go on, by a TargetError, if a crash of the server has emptied UNLOGGED tables."""
    with database_errors("reading what is loaded"):
        whole = run(connection, build("SELECT FROM {} LIMIT 1", STEPS)).rowcount
    if not whole:
        raise TargetError(
            "the server has crashed during the load, which empties UNLOGGED tables.",
            remedy="Begin anew with --replace.",
        )


def once(transaction: TargetTransaction, mark: Mark, steps: Sequence[LoadStep]) -> list[str]:
    """Do steps that are not done yet, and commit them together; return what each has noted.

    A transaction is begun if none is open. Errors of a step's work are psycopg's. A TargetError is
    raised if the target has another mark, or lacks a table of a step as the load's role's own.
    """
    connection, results = transaction.connection, list[str]()
    if connection.info.transaction_status == pq.TransactionStatus.IDLE:
        transaction.begin()
    # The mark cannot be dropped then: a load that begins anew waits for this transaction.
    guard(connection, [STEPS, *frozenset[TableName]().union(*(s.relations for s in steps))])
    mark.found(connection)
    for step in steps:
        name = sql.Literal(step.name)
        with database_errors("noting a step of the load"):
            begun = run(connection, build(_TAKEN, STEPS, name, sql.NULL)).rowcount
        if begun:
            results.append(step.work(transaction))
            run(connection, build(_DONE, STEPS, sql.Literal(results[-1]), name))
        else:
            query = build("SELECT result FROM {} WHERE step = {}", STEPS, name)
            results += (str(result) for (result,) in run(connection, query).fetchall())
    flush_statistics(connection)
    transaction.commit()
    return results


def spread_steps(
    transactions: Sequence[TargetTransaction], mark: Mark, steps: Iterable[LoadStep]
) -> Generator[tuple[LoadStep, str]]:
    """Do steps by several connections at once; yield each with its result.

    Small steps share a transaction. Steps of one table go in order. Those that are refused a lock
    by another one (of a partition, say) are done again alone. If one fails, the others are
    cancelled.
    """
    pending, late, free = _batches(steps), list[list[LoadStep]](), [*transactions]
    running = dict[Future[list[str]], tuple[list[LoadStep], TargetTransaction]]()
    pool = ThreadPoolExecutor(len(free))
    try:
        while pending or running:
            before = [step for batch, _ in running.values() for step in batch]
            for batch in [*pending]:
                if not free:
                    break
                if not any(step.waits_for(other) for step in batch for other in before):
                    pending.remove(batch)
                    context, transaction = copy_context(), free.pop()
                    context.run(JOBS.set, max(1, (JOBS.get() or cores()) // len(transactions)))
                    call = pool.submit(context.run, once, transaction, mark, batch)
                    running[call] = batch, transaction
                before += batch
            for call in wait(running, return_when=FIRST_COMPLETED).done:
                batch, transaction = running.pop(call)
                free.append(transaction)
                try:
                    results = call.result()
                except (errors.DeadlockDetected, errors.LockNotAvailable):
                    transaction.connection.rollback()
                    late.append(batch)
                else:
                    yield from zip(batch, results, strict=True)
        for batch in late:
            yield from zip(batch, once(transactions[0], mark, batch), strict=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        while not all(call.done() for call in running):
            # One that has not sent its next statement yet has to be cancelled again.
            for _, transaction in running.values():
                with suppress(psycopg.Error):
                    transaction.connection.cancel_safe(timeout=5)
            wait(running, timeout=1)


def _batches(steps: Iterable[LoadStep]) -> list[list[LoadStep]]:
    """Steps in order, small ones together."""
    batches = list[list[LoadStep]]()
    for step in steps:
        if batches and step.size + sum(other.size for other in batches[-1]) <= _SMALL:
            batches[-1].append(step)
        else:
            batches.append([step])
    return batches


def _mark_comment(connection: Connection) -> str | None:
    """The comment of a mark (it may be empty), safe to print on a terminal; None without a mark."""
    rows = catalog.ask(connection, _COMMENT, {"schema": STEPS.schema, "name": STEPS.name})
    # Anybody may have written the comment: it is cut, and terminal control characters are escaped.
    return ascii(rows[0].said or "")[1:-1][:_LONGEST] if rows else None


def _parse_mark(comment: str) -> Mark | None:
    """The mark that a comment states, if it states one."""
    try:
        mark = Mark(**json.loads(comment.removeprefix(_SAID)))
    except (ValueError, TypeError):
        return None
    return mark if type(mark.seed) is int and mark.seed >= 0 else None
