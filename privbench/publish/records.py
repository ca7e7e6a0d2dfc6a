"""The JSON files of a bundle that describe it, from which all its other texts follow.

``bundle.json`` names tables, files and sequences; ``certificate.json`` says what the release
guarantees and what it spent; ``statistics.json``, if there is one, holds the planner's statistics.
Their author may be a stranger, so every field is checked, and each file has a single valid form:
its bytes have to equal those that `text` gives for its content.
"""

import json
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from privbench.display import json_visible
from privbench.errors import ModelError
from privbench.limits import MAX_DEPTH, MAX_NAME, faults, json_depth
from privbench.pipeline import Promise
from privbench.privacy import Event
from privbench.schema import TableName, quoted

BUNDLE, CERTIFICATE, STATISTICS = "bundle.json", "certificate.json", "statistics.json"
BEFORE, AFTER = "schema/before.sql", "schema/after.sql"
WORKLOAD, QUERIES = "workload/workload.json", "workload/queries.sql"
PLANNER = "statistics.sql"
SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"

#: Most bytes of a file of facts: it is parsed as a whole, which takes some thirty times as much
#: memory. A certificate of 10,000 events has 4 MiB; with half of this limit, bundles of some 20,000
#: tables would be refused.
MAX_FACTS = 16 * 2**20
#: No control characters (a line break would end a line of psql), no line separators, and no marks
#: that turn the direction of text: a reader must see what is there.
_PLAIN = r"^[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*$"
_PART = r"[A-Za-z0-9_%$-][A-Za-z0-9_.%$-]{0,250}"
_DECIMAL = r"decimal\((?:[1-9]|[12]\d|3[0-8]),(?:\d|[12]\d|3[0-8])\)"
_KINDS = "bool|int16|int32|int64|float32|float64|date|timestamp|timestamptz|text"

PlainText = Annotated[str, Field(max_length=4000, pattern=_PLAIN)]
BundleName = Annotated[str, Field(min_length=1, max_length=MAX_NAME, pattern=_PLAIN)]
#: The arguments of ``pg_restore_attribute_stats``, except names, with their types.
STATISTIC_TYPES: Mapping[str, str] = {
    "null_frac": "real",
    "avg_width": "integer",
    "n_distinct": "real",
    "most_common_vals": "text",
    "most_common_freqs": "real[]",
    "histogram_bounds": "text",
    "correlation": "real",
    "most_common_elems": "text",
    "most_common_elem_freqs": "real[]",
    "elem_count_histogram": "real[]",
    "range_length_histogram": "text",
    "range_empty_frac": "real",
    "range_bounds_histogram": "text",
}


class Strict(BaseModel):
    """The base class of parts of these files: frozen, and without unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Named(Strict):
    """A named object in a PostgreSQL schema."""

    schema_: BundleName = Field(alias="schema")
    name: BundleName

    @property
    def key(self) -> str:
        """The object's qualified name."""
        return str(TableName(self.schema_, self.name))

    @property
    def sql(self) -> str:
        """The object's qualified name, quoted."""
        return quoted(self.schema_, self.name)


class BundleColumn(Strict):
    """A column in the files of a table; ``type`` is as PostgreSQL writes it."""

    name: BundleName
    type: PlainText
    kind: Annotated[str, Field(pattern=f"^(?:{_KINDS}|{_DECIMAL})$")]  # its type in Parquet


class BundleTable(Named):
    """A table and its files, which lie in a folder under ``data/``.

    The files hold ``columns``, which are all except generated ones; the rows of a ``public`` table
    are the source's own. ``chunks`` are the numbers of rows of the files, in order; a table without
    columns has no file.
    """

    folder: Annotated[str, Field(pattern=f"^{_PART}(?:/{_PART})?$")]
    public: bool
    columns: list[BundleColumn]
    primary_key: list[BundleName]
    rows: Annotated[int, Field(ge=0, lt=2**63)]
    chunks: Annotated[list[Annotated[int, Field(ge=0, lt=2**63)]], Field(max_length=99_999)]

    def files(self, form: Literal["csv", "parquet"]) -> list[str]:
        """Return the table's files of a format, in order."""
        places = range(1, len(self.chunks) + 1)
        return [f"data/{self.folder}/{place:05d}.{form}" for place in places]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = {column.name for column in self.columns}
        if len(names) < len(self.columns) or not names.issuperset(self.primary_key):
            raise ValueError("the columns are not those of one table")
        if bool(names) != bool(self.chunks) or (names and sum(self.chunks) != self.rows):
            raise ValueError("the files do not hold the rows")
        return self


class BundleSequence(Named):
    """The state of a sequence: its value, and whether that value has been used."""

    value: Annotated[int, Field(ge=-(2**63), lt=2**63)]
    called: bool


class Bundle(Strict):
    """The content of ``bundle.json``; ``views`` are materialised views that hold rows."""

    format: Literal["privbench-bundle"]
    version: Literal[1]
    title: PlainText
    publisher: PlainText
    licence: PlainText
    published: date
    privbench: PlainText
    server: Annotated[int, Field(ge=9, le=99)]
    tables: list[BundleTable]
    sequences: list[BundleSequence]
    views: list[Named]
    workload: Literal["generated", "declared public", "none"]
    statistics: bool
    lost: list[PlainText]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len({table.folder.lower() for table in self.tables}) < len(self.tables):
            raise ValueError("two tables share their files")
        return self

    @property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(table.rows for table in self.tables)


class Certificate(Strict):
    """The content of ``certificate.json``: the guarantee, and all uses of mechanisms on rows.

    ``owners`` gives, for every private table, the columns that name its owner, or "" for none;
    ``owned_by`` gives, for every owned table, its owner. ``public`` tables were copied verbatim.
    ``config`` is the config of the fit, which is public; ``model`` is the SHA-256 of the model
    file.
    """

    promise: Promise
    owners: dict[PlainText, PlainText]
    owned_by: dict[PlainText, PlainText]
    public: list[PlainText]
    config: dict[str, JsonValue]
    synthesizer: PlainText
    model: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    versions: dict[Literal["privbench", "opendp", "postgresql"], PlainText]
    events: list[Event]


class PublishedColumn(Strict):
    """The planner's statistics of a column: arguments of ``pg_restore_attribute_stats``, as text.

    If ``inherited``, rows of partitions count; the values have the names of ``pg_stats``.
    """

    column: BundleName
    inherited: bool
    # Texts without NUL: psql would end the line there, and then mistake closing quotes of the
    # script for opening ones.
    values: dict[
        Annotated[str, Field(pattern=f"^(?:{'|'.join(STATISTIC_TYPES)})$")],
        Annotated[str, Field(pattern=r"^[^\x00]*$")],
    ]


class IndexStatistics(Strict):
    """The size of an index."""

    name: BundleName
    pages: Annotated[int, Field(ge=-1, lt=2**31)]
    rows: float


class TableStatistics(Named):
    """The planner's statistics of a table: arguments of ``pg_restore_relation_stats``."""

    stored: bool  # whether the table has a file of its own, as tables without partitions have
    # Numbers of pages are 32 bits with a sign in PostgreSQL's catalog; partitioned tables have -1.
    pages: Annotated[int, Field(ge=-1, lt=2**31)]
    rows: float
    # Pages that the visibility map marks as all-visible.
    visible: Annotated[int, Field(ge=-1, lt=2**31)]
    indexes: list[IndexStatistics]  # sizes of its indexes
    columns: list[PublishedColumn]

    @property
    def index_pages(self) -> dict[str, int]:
        """Return the numbers of pages of the table's indexes, by their names."""
        return {index.name: index.pages for index in self.indexes}


class PublishedStatistics(Strict):
    """The content of ``statistics.json``."""

    tables: list[TableStatistics]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len({table.key for table in self.tables}) < len(self.tables):
            raise ValueError("a table is there twice")
        return self


RecordType = TypeVar("RecordType", Bundle, Certificate, PublishedStatistics)


def text(record: Bundle | Certificate | PublishedStatistics) -> bytes:
    """Return the bytes of one of a bundle's JSON files, in its single valid form."""
    data = record.model_dump(mode="json", by_alias=True)
    written = json_visible(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False))
    return written.encode() + b"\n"


def parse(kind: type[RecordType], data: bytes) -> RecordType:
    """Parse bytes that `text` gives; the ModelError names the field that is wrong."""
    if json_depth(data) > MAX_DEPTH:
        raise ModelError("it is nested too deeply.")
    try:
        record = kind.model_validate_json(data)
    except ValidationError as error:
        raise ModelError(f"{faults(error)[0]}.") from None
    if text(record) != data:
        raise ModelError("it is not in the form that privbench writes.")
    return record
