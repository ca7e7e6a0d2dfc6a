"""Resumable loads: several connections, or workers of a Dask cluster, copy parts of tables.

Every part is drawn independently (`CloneTable.parts`) and copied in a transaction of its own, which
also records it in the target (`privbench.postgres.load_mark`). The loader's last transaction
copies the other tables, repairs, and finishes.
"""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from privbench.errors import ConnectionFailed, TargetError
from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.postgres.load import Loader
from privbench.postgres.load_mark import Mark, copy_part, outlasts, parts_there
from privbench.postgres.repair import Repair
from privbench.postgres.transaction import TargetTransaction
from privbench.privacy.workers import LOCAL, Lost, Workers
from privbench.schema import Table
from privbench.threads import JOBS


@dataclass(frozen=True)
class Job:
    """The data that a thread or worker needs to copy parts."""

    dsn: str  # the target
    role: str | None  # role that the load switches to in the target
    model: Model
    mark: Mark
    where: str = LOCAL  # threads of this process, or the address of a Dask scheduler

    @cached_property
    def tables(self) -> dict[str, CloneTable]:
        """The tables of the clone, drawn once in every process."""
        drawn = decode(self.model, scale=self.mark.scale, seed=self.mark.seed)
        return {item.table.key: item for item in drawn}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the job without the tables, which every process draws for itself."""
        return Job, (self.dsn, self.role, self.model, self.mark, self.where)


def copy_parts(
    loader: Loader, job: Job, tables: Sequence[CloneTable], repair: Repair, teller: Reporter
) -> list[CloneTable]:
    """Copy the large tables in parts; parts that an interrupted load has copied are kept.

    The loader is in its last transaction. Returns the tables that were copied; the loader has to
    copy the others. If a part cannot be copied, the parts that were copied stay in the target.
    """
    large = [
        item
        for item in tables
        if _is_apart(item, loader.table(item.table), repair)
        and outlasts(loader.connection, item.table)
    ]
    numbered = [(item, number) for item in large for number in range(item.parts)]
    calls = [(loader.table(item.table), item.columns, number) for item, number in numbered]
    if numbered:
        with closing((_copied_here if job.where == LOCAL else _copied_there)(job, calls)) as copied:
            for (item, number), _ in zip(numbered, copied, strict=True):
                rows_done = min(item.rows, (number + 1) * item.part_rows)
                teller.advance(f"load {item.table.key}", rows_done, item.rows)
    there = parts_there(loader.connection)
    if not {(item.table.key, number) for item, number in numbered} <= there.keys():
        raise TargetError(
            "parts were copied that the target does not have.",
            remedy="See that the DSN leads all workers to one and the same database.",
        )
    refused = {key for (key, _), whole in there.items() if not whole}
    return [item for item in large if item.table.key not in refused]


def _is_apart(item: CloneTable, table: Table, repair: Repair) -> bool:
    """Whether a table is copied part by part.

    Small tables and those without columns are not. Nor are those whose rows depend on one another:
    by a constraint for which rows are inserted one by one, or by sequences that number them.
    """
    defaults = (c for c in table.columns if c.name not in item.columns)
    numbered = any(c.sequence or c.identity for c in defaults)
    some = item.parts > 1 and bool(item.columns)
    return some and table.key not in repair.placed and not numbered


def _copied_here(job: Job, calls: list[tuple[Any, ...]]) -> Generator[None]:
    """Copy parts by threads, and yield after each; a failure stops the others."""
    pool = ThreadPoolExecutor(JOBS.get() or 1)
    try:
        for call in [
            pool.submit(copy_context().run, _copy, job, *arguments) for arguments in calls
        ]:
            yield call.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _copied_there(job: Job, calls: list[tuple[Any, ...]]) -> Generator[None]:
    """Copy parts by workers, and yield after each; if a worker dies, another repeats its part."""
    with Workers(job.where) as workers:
        sent = workers.submit(_sent, job)
        try:
            for call in [workers.submit(_copy, sent, *arguments) for arguments in calls]:
                yield workers.result(call)
        except Lost:
            raise ConnectionFailed("workers of the Dask scheduler were lost.") from None


def _sent(job: Job) -> Job:
    """Return the job; called in a worker, so that the job is sent once and not with every part."""
    return job


def _copy(job: Job, table: Table, columns: tuple[str, ...], number: int) -> None:
    """Copy a part, over a connection of its own."""
    batches = replace(job.tables[table.key], columns=columns).batches(number)
    with TargetTransaction(job.dsn, job.role) as transaction:
        copy_part(transaction, job.mark, table, number, columns, batches)
