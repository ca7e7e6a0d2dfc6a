"""Copy the tables of a clone, several at once: by connections of this process, or by Dask workers.

Every table is copied in order by one transaction (`privbench.postgres.load_mark`), so its rows lie
as in a load by one connection.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from privbench.errors import ConnectionFailed
from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres.copy_in import copy_table
from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.load_mark import LoadStep, Mark, once
from privbench.postgres.locks import lock
from privbench.postgres.statement import build, run, source
from privbench.postgres.transaction import TargetTransaction
from privbench.privacy.workers import LOCAL, Lost, Workers
from privbench.schema import Table


@dataclass(frozen=True)
class Job:
    """The data that a worker needs to copy tables."""

    dsn: str  # the target
    role: str | None  # role that the load switches to in the target
    model: Model
    mark: Mark
    where: str = LOCAL  # this process, or the address of a Dask scheduler

    @cached_property
    def tables(self) -> dict[str, CloneTable]:
        """The tables of the clone, drawn once in every process."""
        drawn = decode(self.model, scale=self.mark.scale, seed=self.mark.seed)
        return {item.table.key: item for item in drawn}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the job without the tables, which every process draws for itself."""
        return Job, (self.dsn, self.role, self.model, self.mark, self.where)


def copy_tables(
    loader: Loader, tables: Sequence[CloneTable], teller: Reporter, job: Job | None = None
) -> Iterator[tuple[CloneTable, int]]:
    """Copy tables by the loader's connections or by workers.

    Yields each table with the number of rows that the target took, or had taken before.
    """
    stated = [replace(item, table=loader.table(item.table)) for item in tables]
    items = {copying(item, teller): item for item in stated}
    with closing(_copied(loader, items, job)) as copied:
        for step, result in copied:
            item = items[step]
            teller.advance(f"load {item.table.key}", item.rows, item.rows)
            if loader.mark is not None:
                # Statistics that autovacuum gathers now would change the plans of repairs.
                mode = "SHARE UPDATE EXCLUSIVE"
                lock(loader.connection, build("{}", item.table.name), item.table.key, mode)
            yield item, int(result)


def copying(item: CloneTable, teller: Reporter) -> LoadStep:
    """Return the step that copies a table, which is described as the target's catalog has it.

    Tables that are filled from one sequence are copied one after the other.
    """
    defaults = (column for column in item.table.columns if column.name not in item.columns)
    sequences = {column.sequence for column in defaults if column.sequence}
    relations = frozenset({item.table.name, *sequences})
    size = 8 * item.rows * len(item.columns)
    return LoadStep(f"rows of {item.table.key}", partial(_copy, item, teller), relations, size=size)


def _copy(item: CloneTable, teller: Reporter, transaction: TargetTransaction) -> str:
    """Copy a table's rows, or add rows of which all columns have their defaults."""
    connection, table = transaction.connection, item.table
    with database_errors("loading rows", table.key):
        run(connection, build("TRUNCATE {} RESTART IDENTITY", source(table)))
        if item.columns:
            return str(copy_table(connection, table, item.columns, _reported(item, teller)))
        added = "INSERT INTO {} SELECT FROM pg_catalog.generate_series(1, {})"
        return str(run(connection, build(added, table.name, item.rows)).rowcount)


def _reported(item: CloneTable, teller: Reporter) -> Iterator[pa.Table]:
    rows_done = 0
    for batch in item.batches():
        yield batch
        rows_done += batch.num_rows
        teller.advance(f"load {item.table.key}", rows_done, item.rows)


def _copied(
    loader: Loader, items: Mapping[LoadStep, CloneTable], job: Job | None
) -> Generator[tuple[LoadStep, str]]:
    """Copy tables and yield the result of each; those that share a sequence go to no worker."""
    away = job if job and job.where != LOCAL and loader.mark else None
    alone = [step for step in items if len(step.relations) == 1]
    there = {step: items[step] for step in alone if away}
    if away:
        yield from _copied_there(away, there)
    yield from loader.run(step for step in items if step not in there)


def _copied_there(
    job: Job, items: Mapping[LoadStep, CloneTable]
) -> Generator[tuple[LoadStep, str]]:
    """Copy tables by workers, and yield the result of each; if a worker dies, another repeats."""
    with Workers(job.where) as workers:
        sent = workers.submit(_sent, job)
        try:
            calls = [
                workers.submit(_copy_there, sent, item.table, item.columns)
                for item in items.values()
            ]
            for step, call in zip(items, calls, strict=True):
                yield step, workers.result(call)
        except Lost:
            raise ConnectionFailed("workers of the Dask scheduler were lost.") from None


def _sent(job: Job) -> Job:
    """Return the job, which then stays with the workers and is not sent with every table."""
    return job


def _copy_there(job: Job, table: Table, columns: tuple[str, ...]) -> str:
    """Copy a table in a worker, over a connection of its own."""
    item = replace(job.tables[table.key], table=table, columns=columns)
    with TargetTransaction(job.dsn, job.role) as transaction:
        return once(transaction, job.mark, [copying(item, Reporter())])[0]
