"""The Python interface for notebooks: three objects that do what the command line does.

>>> import privbench as pb
>>> pb.connect({"people": {"born": [1970]}}, identity="people")
Source people

Everything is CONFIDENTIAL except a `ReleasedModel` and the rows that are sampled from it.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq
from pydantic import ValidationError

from privbench import pipeline, report
from privbench.cli.console import reporter, show
from privbench.config import Config, TableConfig, refusal
from privbench.display import lines, paragraphs
from privbench.postgres.connect import shown
from privbench.schema import TableName
from privbench.sources import staged
from privbench.sources.frames import declared, texts
from privbench.workload import Workload


def connect(
    source: str | Mapping[str, Any],
    *,
    types: Mapping[str, Mapping[str, str]] | None = None,
    keys: Mapping[str, str | Mapping[str, Any]] | None = None,
    identity: str | None = None,
    config: str | Path | Config = Config(),  # noqa: B008
) -> "Source":
    """Return a source: a connection string, or Arrow tables, data frames or mappings by table name.

    For tables in memory, `types` gives the DuckDB types of columns (text is the default), and
    `keys` gives the column of each primary key, or settings as in ``[source.tables]``. `identity`
    is the database's name in the ledger.
    """
    config = config if isinstance(config, Config) else Config.load(config)
    if identity is not None:
        config = config.changed("database", identity=identity)
    dsn, frames = (source, {}) if isinstance(source, str) else ("", source)
    tables = {name: texts(frame) for name, frame in frames.items()}
    if tables or types or keys:
        config = declared(config, tables, types or {}, keys or {})
    opened = Source(dsn, config, tables)
    with opened.opened(rows=False) as here:
        pipeline.look(here, config, access=False, dump=False)
    return opened


def fit(source: str | Mapping[str, Any], *, epsilon: float, **given: Any) -> "ReleasedModel":
    """Learn a model of a source with the proposed roles; short for `connect` and `Source.fit`."""
    found = connect(source, **given)
    show(repr(proposal := found.propose()))
    return found.fit(proposal, epsilon=epsilon)


def compare(
    source: "Source", clone: str, workload: str | Path | Workload | None = None, **options: Any
) -> report.ComparisonDocument:
    """Compare a clone with its source, see `privbench.report.compare`.

    Without a workload, only the rows.
    """
    with source.opened() as here:
        return report.compare(here, clone, workload, source.config, **options)


@dataclass(frozen=True, repr=False)
class Source:
    """A source of private rows: a database, files, or tables in memory."""

    dsn: str  # empty for tables in memory
    config: Config
    tables: Mapping[str, pa.Table]  # their values as text

    def __repr__(self) -> str:
        return f"Source {shown(self.dsn) if self.dsn else ', '.join(self.tables)}"

    @contextmanager
    def opened(self, *, rows: bool = True) -> Iterator[str]:
        """Give the connection string of the database, or of a temporary copy of the files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, table in self.tables.items() if rows else ():
                papq.write_table(table, f"{folder}/{name}.parquet")
            with staged(self.dsn or f"parquet:{folder}", self.config, rows=rows) as here:
                for name in self.tables if rows else ():
                    Path(folder, f"{name}.parquet").unlink()
                yield here

    def propose(self) -> "Roles":
        """Propose the role of every table from the catalog alone: which table owns which rows."""
        with self.opened(rows=False) as here:
            catalog = pipeline.look(here, self.config)
        tables = {str(TableName.parse(name)): item for name, item in self.config.tables.items()}
        return Roles(catalog, self.config.model_copy(update={"tables": tables}))

    def fit(
        self,
        proposal: "Roles | None" = None,
        *,
        epsilon: float | None = None,
        output: str | Path | None = None,
        resume: str | None = None,
    ) -> "ReleasedModel":
        """Learn a model, by the config's roles unless others are given.

        Without `output`, in memory.
        """
        config, catalog = self.config, None
        with self.opened() as here, tempfile.TemporaryDirectory() as folder:
            if proposal:
                found = proposal.inspect({})
                config = found.config
                catalog = pipeline.agreed_catalog(here, proposal.catalog, found)
            if epsilon is not None:
                config = config.with_privacy(epsilon=epsilon)
            path, told = Path(output or f"{folder}/unsaved"), reporter("human", ())
            model = pipeline.fit(here, config, path, reporter=told, resume=resume, catalog=catalog)
        return ReleasedModel(model, path.stem)


@dataclass(frozen=True, repr=False)
class Roles:
    """The roles of all tables; ``roles["users"]`` selects a table whose role is to be changed."""

    catalog: pipeline.Catalog
    base: Config  # what is decided
    selected: str = ""

    def __getitem__(self, table: str) -> "Roles":
        return replace(self, selected=self.catalog.schema.table(table).key)

    def inspect(self, changes: Mapping[str, TableConfig]) -> pipeline.Inspection:
        """Return the proposal together with the decisions in the config and the given changes."""
        base = self.base.model_copy(update={"tables": {**self.base.tables, **changes}})
        return pipeline.inspect("", base=base, catalog=self.catalog)

    def __repr__(self) -> str:
        """Roles and values to accept; of a selection how its columns are made."""
        proposal = self.inspect({})
        if self.selected:
            every = proposal.plan.coverage()
            return pipeline.render_coverage([line for line in every if line.table == self.selected])
        listed = self.catalog.literals
        values = [pipeline.render_literals(listed)] if listed else []
        return paragraphs(proposal.render(whole=False), *values)

    def public(self) -> None:
        """Declare the table public: its rows are COPIED VERBATIM."""
        self.decide(role="public", own=None)

    def decide(self, **settings: Any) -> None:
        """Change settings of the table in the config, for example ``own=["user_id"]``."""
        before = self.base.tables.get(self.selected, TableConfig()).model_dump(exclude_unset=True)
        try:
            changes = {self.selected: TableConfig.model_validate({**before, **settings})}
        except ValidationError as error:
            raise refusal(self.selected, error, TableConfig) from error
        self.inspect(changes)
        self.base.tables.update(changes)


@dataclass(frozen=True, repr=False)
class ReleasedModel:
    """A released model; the model and everything that is made from it may be published."""

    model: pipeline.Model
    name: str  # of its file

    def __repr__(self) -> str:
        return lines(f"Model {self.name}", repr(self.model))

    def sample(
        self, scale: float = 1.0, *, seed: int | None = None, frames: bool = False
    ) -> dict[str, Any]:
        """Return synthetic tables by name, drawn as `privbench sample` does; of Arrow or pandas."""
        tables = pipeline.sample_tables(self.model, scale, seed)
        return {name: rows.to_pandas() if frames else rows for name, rows in tables.items()}

    def load(self, target: str, **options: Any) -> pipeline.LoadReport:
        """Load a clone into a database, see `privbench.pipeline.load` for the options."""
        return pipeline.load(self.model, target, reporter=reporter("human", ()), **options)
