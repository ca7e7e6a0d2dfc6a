"""``load`` and ``sample``: a model's clone into PostgreSQL or files, without the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq

from privbench.config import Config
from privbench.encoding import CoverageLine, unkept
from privbench.errors import UsageError
from privbench.pipeline import ddl_guard
from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import read_catalog
from privbench.postgres import target
from privbench.postgres.ddl import dump_ddl
from privbench.postgres.load import Loader
from privbench.postgres.mend import Mended, Mending
from privbench.postgres.reading import reading
from privbench.threads import ahead
from privbench.workload.split import statements

FileFormat = Literal["csv", "parquet"]
#: Constraints over pairs of rows in what pg_dump prints: the table, and the constraint.
_OVERLAPS = re.compile(
    r"^ALTER TABLE (?:ONLY )?(\S.*)\n"
    r"\s+ADD CONSTRAINT (.* (?:EXCLUDE USING .*|.* WITHOUT OVERLAPS\)));$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class LoadReport:
    """What a clone holds.

    Attributes:
        rows: Rows per table.
        dropped: Rows per table for which no valid key was left, or that broke a rule.
        public: Tables that were copied verbatim.
        loose: CHECKs that most synthetic rows break, and that the clone has as NOT VALID.
        private: False when the model's noise was seeded: NOT PRIVATE (P24).
    """

    rows: dict[str, int]
    dropped: dict[str, int]
    public: tuple[str, ...]
    loose: tuple[str, ...] = ()
    private: bool = True

    def render(self) -> str:
        """Plain text for people."""
        width = max((len(name) for name in self.rows), default=0)
        lines = [
            f"  {name:<{width}}  {count:>12,}{self._remark(name)}"
            for name, count in self.rows.items()
        ]
        total = sum(self.rows.values())
        loose = [f"NOT VALID, since synthetic rows break it: CHECK {name}" for name in self.loose]
        seeded = [] if self.private else ["NOT PRIVATE: the noise of this clone was seeded."]
        head = f"{len(self.rows)} tables, {total:,} rows:"
        return "\n".join([*seeded, head, *lines, *loose])

    def _remark(self, name: str) -> str:
        if name in self.public:
            return "  PUBLIC: COPIED VERBATIM"
        lost = self.dropped.get(name, 0)
        return f"  ({lost:,} more had no valid key left or broke a rule)" if lost else ""


def load(
    model: str | Path,
    target_dsn: str,
    *,
    scale: float = 1.0,
    seed: int | None = None,
    replace: bool = False,
    trust_programs: bool = False,
    reporter: Reporter | None = None,
) -> LoadReport:
    """Write a model's clone into a database: all or nothing.

    Args:
        model: The model file.
        target_dsn: An empty database.
        scale: Size of the clone.
        seed: Seed of the sampling.
        replace: Drop what the target holds, in the same transaction.
        trust_programs: Let the model's DDL bring functions, triggers and rules.
        reporter: Told of stages.

    Raises:
        ModelError: The model is damaged or hostile.
        TargetError: The target may not be written.
        DatabaseError: The server refused.
    """
    teller = reporter or Reporter()
    with teller.stage("read the model"):
        found = Model.load(model)
        for text in (found.ddl.pre_data, found.ddl.post_data):
            ddl_guard.check(text, trust=trust_programs)
    with teller.stage("sample"):
        tables = decode(found, scale=check_scale(scale), seed=seed)
    with teller.stage("load"):
        mended = _write(found, tables, target_dsn, replace, trust_programs, teller, seed)
    lost = mended.deleted
    return LoadReport(
        {item.table.key: item.rows - lost.get(item.table.key, 0) for item in tables},
        {item.table.key: item.dropped + lost.get(item.table.key, 0) for item in tables},
        tuple(item.table.key for item in tables if item.public),
        mended.loose,
        found.promise.private,
    )


def _write(
    model: Model,
    tables: list[CloneTable],
    dsn: str,
    replace: bool,
    trusted: bool,
    teller: Reporter,
    seed: int | None,
) -> Mended:
    with Loader(
        dsn,
        model.schema,
        model.ddl,
        replace=replace,
        progress=lambda step, rows: teller.advance(step, rows or 0),
        split=None if trusted else statements,
    ) as loader:
        mending = Mending(
            loader.connection,
            [item.table for item in tables if not item.public],
            loader.rehearsal,
            [item.table.key for item in tables if item.torn],
            seed=seed,
        )
        filled = [item.without(loader.without_values(item.table)) for item in tables]
        for item, batches in _batches([item for item in filled if item.columns]):
            taken = loader.copy_table(item.table, item.columns, _told(item, batches, teller))
            mending.missing(item.table, item.rows - taken)
        for item in filled:
            if not item.columns:
                loader.add_rows(item.table, item.rows)
        mended = mending.settle()
        loader.finish()
    return mended


def _batches(tables: list[CloneTable]) -> Iterator[tuple[CloneTable, Iterator[pa.Table]]]:
    """Tables that hold rows, and their batches; while the server takes one, the next is made.

    A table's rows end with None, so that what goes wrong with the next is not told of this one.
    """
    made = (
        (place, batch)
        for place, item in enumerate(tables)
        for batch in chain(item.batches(), (None,))
    )
    for place, some in groupby(ahead(made), key=itemgetter(0)):
        yield tables[place], iter(partial(_rows, some), None)


def _rows(some: Iterator[tuple[int, pa.Table | None]]) -> pa.Table | None:
    """The next rows of a table, or None."""
    return next(some)[1]


def _told(item: CloneTable, batches: Iterator[pa.Table], teller: Reporter) -> Iterator[pa.Table]:
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        teller.advance(f"load {item.table.key}", done, item.rows)


def sample(
    model: str | Path,
    output: str | Path,
    *,
    file_format: FileFormat = "csv",
    scale: float = 1.0,
    seed: int | None = None,
    reporter: Reporter | None = None,
) -> list[str]:
    """Write a model's clone as files, one a table.

    Rows are as drawn: what `load` mends in a database (CHECKs that are not understood, expression
    UNIQUE indexes, EXCLUDE constraints, partition bounds) they may break.

    Args:
        model: The model file.
        output: A directory that is empty or does not exist.
        file_format: ``csv`` (with header; NULL is nothing, an empty text is ``""``) or ``parquet``.
        scale: Size of the clone.
        seed: Seed of the sampling.
        reporter: Told of stages.

    Returns:
        A line each of what was written, then of the rules that the files may break.

    Raises:
        ModelError: The model is damaged.
        UsageError: The directory cannot be used.
    """
    teller = reporter or Reporter()
    folder = _empty(Path(output))
    with teller.stage("sample"):
        found = Model.load(model)
        tables = decode(found, scale=check_scale(scale), seed=seed)
    lines = [] if found.promise.private else [found.promise.sentence()]
    with teller.stage("write"):
        for item in tables:
            path = folder / _file_name(item, file_format)
            _write_file(item, path, file_format)
            lines.append(f"{path}: {item.rows:,} rows")
    return lines + _unmended(found, tables)


def _unmended(model: Model, tables: list[CloneTable]) -> list[str]:
    """What files may break, since only a database can tell which rows keep such a rule."""
    lines = [line for item in tables if not item.public for line in unkept(item.table)]
    found = [f"{_place(line)}: {line.why}" for line in lines]
    found += [f"{table}: {rule}" for table, rule in _OVERLAPS.findall(model.ddl.post_data)]
    head = "As drawn: rows of these files may break rules that `load` mends in a database:"
    return [head, *(f"  {line}" for line in found)] if found else []


def _place(line: CoverageLine) -> str:
    return f"{line.table} ({line.column})" if line.column else f"{line.table} ({line.how})"


def check_target(source: str, target_dsn: str, *, replace: bool) -> None:
    """Refuse a target that a load would refuse, before any budget is spent.

    Raises:
        TargetError: It is the source, or is not empty.
        ConnectionFailed: A server is unreachable.
    """
    with reading(source) as one, reading(target_dsn) as other:
        target.refuse_source(other, one)
        if not replace:
            target.refuse_contents(target.contents(other))


def rehearse(source: str, target_dsn: str, config: Config, *, replace: bool) -> None:
    """Make the empty schema in the target and undo it: refuse now what a load would refuse later.

    Missing extensions, rights and roles, and what an older server does not know, show here, before
    any budget is spent.

    Raises:
        TargetError: The target is the source, is not empty, or lacks an extension.
        DatabaseError: The target refuses the schema.
    """
    with reading(source) as connection:
        schema = read_catalog(connection, config).schema
        ddl = dump_ddl(connection, schema)
        with (
            Loader(target_dsn, schema, ddl, replace=replace, source=connection) as loader,
            loader.rehearsal(),
        ):
            pass


def check_scale(scale: float) -> float:
    """The scale of a clone, if it is one.

    Raises:
        UsageError: It is not.
    """
    if not 0 < scale <= 1e6:
        raise UsageError("--scale must lie above 0 and be at most 1,000,000.")
    return scale


def _empty(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty.", remedy="Name a new directory.")
    except OSError as error:
        raise UsageError(f"cannot use {folder}: {error.strerror}.") from error
    return folder


def _file_name(item: CloneTable, file_format: FileFormat) -> str:
    name = item.table.key.replace("/", "_").replace("\x00", "_")
    return f"{name}.{file_format}"


def _write_file(item: CloneTable, path: Path, file_format: FileFormat) -> None:
    names = list(item.columns)
    writer: pacsv.CSVWriter | papq.ParquetWriter | None = None
    for batch in item.batches():
        table = batch.rename_columns(names)
        if writer is None and file_format == "parquet":
            writer = papq.ParquetWriter(path, table.schema)
        elif writer is None:
            options = pacsv.WriteOptions(quoting_style="needed")
            writer = pacsv.CSVWriter(path, table.schema, write_options=options)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    else:
        path.write_text(",".join(names) + "\n" if file_format == "csv" else "", encoding="utf-8")
