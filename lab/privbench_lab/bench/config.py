"""The grid of a benchmark, as a TOML file states it: data, synthesizers, ε, seeds, metrics.

Everything in it is public, as in the config of a release: ranges and lists of values included.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from privbench.config import ColumnConfig
from privbench.errors import ConfigError, UsageError
from privbench.limits import faults
from privbench.postgres.connect import libpq_dsn, redact
from privbench.report.gates import Gate

#: Name of the results of training on real rows, which every table with a target gets.
REAL = "real"

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Metrics = Literal["tstr", "pmse", "columns", "kld", "qerror", "loglik", "network"]
#: Allowed names: a name becomes part of the names of files, and of figures in gates.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.+-]{0,63}$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceConfig(_Section):
    """How a database is made, on a server of its own, before it is fitted."""

    sql: list[str] = []  # files that psql runs, in this order
    rows: str | None = None  # the folder in which psql runs: where its files of rows are
    # A program that writes files of rows into an empty folder before psql runs there, or that fills
    # the database, whose connection string stands for the word ``@dsn``: a Python file, or a
    # program of `packages`.
    program: list[str] = []
    packages: list[str] = []  # what pip installs for the program, in an environment of its own


class DataConfig(_Section):
    """One data set: a table of a file, a database, or rows drawn from a network."""

    train: str | None = None  # CSV (also packed by gzip) or Parquet file of training rows
    test: str | None = None  # file of test rows, instead of ``test_share`` of ``train``
    # Part of the rows that is held out, the same for all synthesizers and seeds.
    test_share: Annotated[float, Field(ge=0, lt=1)] = 0.25
    header: bool = True  # whether a CSV file begins with names; else they are c0, c1, …
    null: list[str] = [""]  # texts that mean NULL
    complete: bool = False  # whether rows with a NULL are left out
    rows: Annotated[int, Field(ge=10)] | None = None  # most training rows, drawn at random
    drop: list[str] = []  # columns to leave out
    # A JSON file with the public domain of every column: ``{"columns": {NAME: {"type":
    # "categorical", "values": […]}, …: {"type": "integer", "min": …, "max": …}}}``. Without one,
    # what ``columns`` does not declare is read off training and test rows together, and taken as
    # public: for data that are published anyway.
    domain: str | None = None
    # What is publicly known of single columns, as in the config of a release.
    columns: dict[str, ColumnConfig] = {}
    target: str | None = None  # the column that classifiers learn
    # Its positive values; a target of more than two values is first reduced to two.
    positive: list[str | int | float | bool] | None = None
    task: Literal["classification", "regression"] = "classification"  # what is learned
    numbers: bool = False  # whether classifiers get categories as numbers, not as columns
    # Counting queries: ``count||SELECT COUNT(*) …`` lines for a table, any workload for a database.
    # Counts are made anew.
    workload: str | None = None
    dsn: str | None = None  # a database, instead of files; results hold it without its secrets
    source: SourceConfig | None = None  # a database that is made, instead of files
    # A database's config (roles, domains), as of ``privbench fit``; else what ``privbench
    # inspect --lookups public`` proposes.
    config: str | None = None
    # The kind of a workload that is generated from a database's rows, and its number of queries.
    generate: str | None = None
    queries: Annotated[int, Field(ge=1)] = 160
    answers: str | None = None  # a file of aggregate queries whose answers are compared by group
    syntherela: bool = False  # whether SyntheRela judges the clone of a database
    # SHA-256 of files, also of those that `source` makes; a data set with others is not used.
    sha256: dict[str, str] = {}
    bif: str | None = None  # a network in the Bayesian Interchange Format, instead of files
    published: str | None = None  # the data set's name in tables of published figures

    @field_validator("positive", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, list) else [value]

    @field_validator("dsn")
    @classmethod
    def _a_connection_string(cls, value: str | None) -> str | None:
        try:
            return value if value is None else libpq_dsn(value)
        except UsageError:
            raise ValueError("the connection string cannot be read") from None

    @field_serializer("dsn")
    def _without_secrets(self, value: str | None) -> str | None:
        return value if value is None else redact(value)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = (self.train, self.dsn, self.source, self.bif)
        if sum(source is not None for source in given) != 1:
            raise ValueError("give one of train, dsn, source and bif")
        if self.is_database and (self.workload is None) == (self.generate is None):
            raise ValueError("a database needs one of workload and generate")
        if self.is_database and self.target is not None:
            raise ValueError("a database has no target: joins are what is compared")
        return self

    @property
    def is_database(self) -> bool:
        """Whether it is a whole database."""
        return self.dsn is not None or self.source is not None

    def files(self) -> Iterator[str]:
        """The names of its files, as the grid gives them; those that `source` makes are not."""
        named = (self.train, self.test, self.domain, self.workload, self.bif, self.config)
        yield from (name for name in (*named, self.answers) if name is not None)
        if self.source is not None:
            yield from self.source.sql
            yield from (word for word in self.source.program[:1] if word.endswith(".py"))


class SynthesizerConfig(_Section):
    """A synthesizer or peer with its options: one way to make synthetic rows."""

    use: str | None = None  # an installed synthesizer or a peer; else the section's name
    options: dict[str, Any] = {}  # the text ``@target`` stands for the data set's target
    data: list[str] | None = None  # data sets it is tried on; None for all
    accounting: Literal["auto", "pure", "zcdp"] | None = None  # instead of the grid's
    # Most codes of an ordered column, neighbours being one code; None for the grid's ``cells`` for
    # a peer, and for all codes for an installed synthesizer.
    cells: Annotated[int, Field(ge=2)] | None = None
    # Synthetic rows as a multiple of the training rows, for installed synthesizers alone. More rows
    # of one model cost no budget, and figures scatter less.
    scale: Positive = 1.0
    # Whether the noise is seeded; results are then stamped NOT PRIVATE. For methods that refuse a
    # private session, such as a published method whose accounting does not hold.
    seeded: bool = False
    published: list[str] = []  # its names in tables of published figures


class PublishedConfig(_Section):
    """Figures that papers have printed."""

    files: list[str] = []  # CSV of paper, dataset, method, epsilon, metric and value
    metrics: dict[str, str] = {}  # our figures' names in these files: ``{"auroc.mean" = "AUROC"}``
    real: list[str] = ["original"]  # names of training on real rows
    note: str = ""  # a remark for readers


class ThresholdConfig(_Section):
    """What a figure of a row must be, over its releases, to pass."""

    least: float | None = None  # least median
    most: float | None = None  # greatest median
    spread: float | None = None  # greatest difference between two releases

    def gates(self, figure: str) -> list[Gate]:
        """The conditions under which the figure fails."""
        limits = (("median", "<", self.least), ("median", ">", self.most))
        return [
            Gate(f"{kind}.{figure}", sign, limit)
            for kind, sign, limit in (*limits, ("spread", ">", self.spread))
            if limit is not None
        ]


class BenchConfig(_Section):
    """A whole grid."""

    title: str = "Synthesizers compared"  # heading of the page
    epsilon: Annotated[list[Positive], Field(min_length=1)]  # ε of every release
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-9  # δ of every release; one for all
    accounting: Literal["auto", "pure", "zcdp"] = "auto"  # ``auto`` is zCDP where δ > 0
    neighbours: Literal["add-remove", "replace"] = "add-remove"  # one neighbour relation for all
    seeds: Annotated[int, Field(ge=1)] = 5  # releases of each kind, reported by their mean
    metrics: list[Metrics] = ["tstr", "columns", "kld"]  # what is scored
    ways: list[Annotated[int, Field(ge=2, le=4)]] = [2]  # λ of the λ-way KLD
    classifiers: list[str] = ["lr", "rf", "mlp", "gnb", "gb"]  # names of classifiers or regressors
    cells: Annotated[int, Field(ge=2)] = 100  # most codes of an ordered column for peers
    limit: Positive = 1800.0  # seconds that one cell may take
    data: Annotated[dict[Name, DataConfig], Field(min_length=1)]  # the data sets
    synthesizers: Annotated[dict[Name, SynthesizerConfig], Field(min_length=1)]
    published: PublishedConfig = PublishedConfig()  # published figures
    # Thresholds by row (``adult/privbench/1``) and figure. They make the grid a protocol: cells
    # that were made under another text of its file are made anew.
    thresholds: dict[str, dict[str, ThresholdConfig]] = {}
    _digest: str = PrivateAttr("")

    @model_validator(mode="after")
    def _names(self) -> Self:
        if REAL in self.synthesizers:
            raise ValueError(f"{REAL!r} is training on real rows: choose another name")
        if self.accounting == "zcdp" and self.delta == 0:
            raise ValueError("accounting 'zcdp' needs delta > 0")
        if len({f"{value:g}" for value in self.epsilon}) < len(self.epsilon):
            raise ValueError("epsilon: a value stands there twice")
        for name, part in self.synthesizers.items():
            if missing := sorted(set(part.data or ()) - set(self.data)):
                raise ValueError(f"synthesizers.{name}: no data set {missing[0]!r}")
        places = {f"{data}/{REAL}" for data in self.data}
        for epsilon, name in product(self.epsilon, self.synthesizers):
            places |= {f"{data}/{name}/{epsilon:g}" for data in self.data}
        if strangers := sorted(self.thresholds.keys() - places):
            raise ValueError(f"thresholds: no row {strangers[0]!r}")
        return self

    @classmethod
    def load(cls, path: str | Path, *, full: bool = False) -> Self:
        """Read a TOML file; with ``full``, values in its section ``full`` replace the others.

        The ConfigError names the place of the mistake.
        """
        try:
            text = Path(path).read_bytes()
            raw = tomllib.loads(text.decode())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"the grid {str(path)!r} cannot be read: {error}.") from error
        grid = cls.of(raw, full=full, name=str(path))
        grid._digest = hashlib.sha256(text).hexdigest()
        return grid

    @property
    def digest(self) -> str:
        """SHA-256 of the file that `load` read; empty for a grid that was not read from one."""
        return self._digest

    def gates(self) -> list[Gate]:
        """The conditions of the thresholds."""
        return [
            gate
            for place, figures in self.thresholds.items()
            for figure, threshold in figures.items()
            for gate in threshold.gates(f"{figure}[{place}]")
        ]

    @classmethod
    def of(cls, raw: Mapping[str, Any], *, full: bool = False, name: str = "grid") -> Self:
        """The grid from the content of a TOML file, see `load`."""
        plain = {key: value for key, value in raw.items() if key != "full"}
        more = raw.get("full", {})
        try:
            if not isinstance(more, Mapping):
                raise ConfigError(f"{name}: full: a table is expected.")
            # Both are checked, so that a mistake in the large grid shows in the small one.
            whole = cls.model_validate(_merged(plain, more))
            return whole if full else cls.model_validate(plain)
        except ValidationError as error:
            raise ConfigError(f"{name}: {faults(error)[0]}.") from error

    def use_of(self, name: str) -> str:
        """The installed synthesizer or the peer that a name of the grid stands for."""
        settings = self.synthesizers.get(name)
        return (settings.use if settings else None) or name

    def accounting_of(self, name: str) -> Literal["pure", "zcdp"]:
        """The accounting of a synthesizer's releases: the same rule for every one."""
        wanted = self.synthesizers[name].accounting or self.accounting
        if wanted == "auto":
            return "zcdp" if self.delta > 0 else "pure"
        return wanted


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two TOML tables and the tables within them; values of ``more`` replace others."""
    found = dict(base)
    for key, value in more.items():
        old = found.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        found[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return found


@dataclass(frozen=True, slots=True)
class Job:
    """One release of the grid."""

    data: str  # the data set
    synthesizer: str  # the synthesizer, or `REAL`
    epsilon: float | None  # ε; None for real rows
    seed: int  # number of the release

    def __str__(self) -> str:
        at = "" if self.epsilon is None else f" at ε = {self.epsilon:g}"
        return f"{self.data}, {self.synthesizer}{at}, seed {self.seed}"

    def file(self, folder: Path) -> Path:
        """Where its outcome is kept."""
        at = "real" if self.epsilon is None else f"{self.epsilon:g}"
        return folder / f"{self.data}~{self.synthesizer}~{at}~{self.seed}.json"
