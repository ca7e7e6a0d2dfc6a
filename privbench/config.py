"""The configuration file (TOML) as typed classes, and its JSON Schema.

The contents are public knowledge by contract: the adversary may know the whole file.
"""

import json
import re
import tomllib
from collections.abc import Iterable
from datetime import date, time
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from privbench.display import toml_visible
from privbench.errors import ConfigError

#: Types of the scalars that documents hold.
PathType = Literal["text", "boolean", "bigint", "numeric", "date", "timestamp", "timestamptz"]

#: The most paths of one column of documents, and the most steps and characters of a path's keys.
MAX_PATHS, MAX_STEPS, MAX_KEY = 64, 4, 64
#: The most characters of a path: each of a key may be written as two escapes of six.
_MAX_PATH = MAX_STEPS * (12 * MAX_KEY + 3)
_STEP = re.compile(r'"(?:[^"\\]|\\.)*"|[^."\\]+')


def path_steps(text: str) -> tuple[str, ...]:
    """Split the path of a JSON document into keys; keys with dots or quotes stand in quotes.

    The position in an array is written in brackets: ``lines.[0].price``. Raises a ValueError for a
    text that is no path, or for a path that is too long or too deep.

    >>> path_steps("user.name"), path_steps('"a.b".c')
    (('user', 'name'), ('a.b', 'c'))
    """
    if len(text) > _MAX_PATH:
        raise ValueError(f"a path is longer than {_MAX_PATH} characters")
    matches = _STEP.findall(text)
    steps = tuple(json.loads(step) if step[0] == '"' else step for step in matches)
    if ".".join(matches) != text or not 0 < len(steps) <= MAX_STEPS:
        raise ValueError(f"{text!r} is not a path of at most {MAX_STEPS} keys")
    for step in steps:
        if not 0 < len(step) <= MAX_KEY or not step.isprintable():
            raise ValueError(f"a key of {text!r} is longer than {MAX_KEY} letters, or none")
        if step.removeprefix("-").isdigit():
            raise ValueError(f"{text!r} names a place in an array, not a key of an object")
    return steps


def path_text(steps: Iterable[str]) -> str:
    """Return the text of a path from its keys, as `path_steps` reads it."""
    return ".".join(json.dumps(step) if re.search(r'[."\\]', step) else step for step in steps)


def require_paths(texts: Iterable[str]) -> None:
    """Refuse (ValueError) too many paths, and a path that leads into the scalar of another path."""
    texts = list(texts)
    if len(texts) > MAX_PATHS:
        raise ValueError(f"more than {MAX_PATHS} paths")
    paths = sorted(map(path_steps, texts))
    for one, other in pairwise(paths):
        if other[: len(one)] == one:
            raise ValueError(
                f"the paths {path_text(one)} and {path_text(other)} exclude each other"
            )


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatabaseConfig(_Section):
    """The section ``[database]``: which database is cloned, and which of its schemas and tables.

    Attributes:
        identity: Declared name, shared by replicas, restores and logical copies. Without it
            the system identifier and the database's OID stand in, and `plan` says so.
        schemas: PostgreSQL schemas to clone, names or patterns as ``-n`` of pg_dump takes them;
            None means every schema but the system's own.
        tables: Tables and views of these schemas to clone, as ``-t`` takes them; None means all.
        exclude: Tables left out of the clone, as ``-T`` takes them.
    """

    identity: str | None = None
    schemas: list[str] | None = None
    tables: list[str] | None = None
    exclude: list[str] = []


class PrivacyConfig(_Section):
    """The section ``[privacy]``: the guarantee that a release gives.

    Attributes:
        epsilon: ε of the whole release; the command line may give it instead.
        delta: δ of the whole release; 0 forbids threshold releases of categories.
        accounting: ``pure`` adds ε; ``zcdp`` adds ρ and converts once to (ε, δ). ``auto`` takes
            the one with less noise in what catalog and config foresee; pure where δ is 0.
        neighbours: One unit added or removed, or one replaced.
        unit: ``owner`` is database-level DP; ``row`` is table-level DP.
        seed: Seeds the noise: the fit is then stamped NOT PRIVATE.
        roles: ``declared`` in this file by its owner, or ``proposed`` by the tool and accepted.
        sizes_shown: Whether the roles were chosen with the planner's estimates of sizes in sight;
            ``inspect --sizes`` writes it, and the promise says it.
        ddl_reviewed: The digest that ``check`` printed for the values in the schema, once the owner
            has reviewed them; a schema with other values is refused.
    """

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-9
    accounting: Literal["auto", "pure", "zcdp"] = "auto"
    neighbours: Literal["add-remove", "replace"] = "add-remove"
    unit: Literal["owner", "row"] = "owner"
    seed: int | None = None
    roles: Literal["declared", "proposed"] = "declared"
    sizes_shown: bool | None = None
    ddl_reviewed: str | None = None

    @model_validator(mode="after")
    def _zcdp_needs_delta(self) -> Self:
        if self.accounting == "zcdp" and self.delta == 0:
            raise ValueError("accounting 'zcdp' needs delta > 0")
        return self


class LedgerConfig(_Section):
    """The section ``[ledger]``: where the losses of releases are recorded, and their limits.

    Attributes:
        path: Directory of the ledger; None means the user's state directory.
        cap_epsilon: No release may take the database's total ε past this.
        cap_delta: Likewise for δ.
        max_epsilon_per_month: Likewise for the ε of all releases opened in a calendar month (UTC).
        apart_from: Declared names of other data, whose server states the same identifier since its
            files are a copy. Their losses are not counted here; the ledger records it.
    """

    path: str | None = None
    cap_epsilon: Annotated[float, Field(gt=0)] | None = None
    cap_delta: Annotated[float, Field(ge=0)] | None = None
    max_epsilon_per_month: Annotated[float, Field(gt=0)] | None = None
    apart_from: list[str] = []


class CountingConfig(_Section):
    """The section ``[counting]``: which machines count rows; the counts are the same on all.

    Attributes:
        where: ``local`` is this process; ``tls://host:port`` or ``tcp://host:port`` are the workers
            of a Dask scheduler, which read and count parts of large tables. Another machine needs
            ``tls://``, or ``--trust-network``.
    """

    where: Annotated[str, Field(pattern=r"^(local|(tcp|tls)://[^\s/]+:\d+)$")] = "local"


class ColumnConfig(_Section):
    """The public knowledge of one column.

    Attributes:
        kind: ``auto`` by type; ``categories`` a list (declared, or released under δ); ``range``
            public bounds, within which a range is released if they hold more than 512 values and
            `bins` is not given; ``text`` free text, never copied; ``skip`` filled with NULL or a
            constant.
        values: Declared categories, or labels in order.
        min: Lower public bound, as a literal of the column's type; dates in quotes.
        max: Upper public bound, inclusive.
        bins: Number of equal bins for metrics, released ranges and public ones of over 256 steps.
        per_unit: In how many distinct values of a released list one privacy unit counts.
        pieces: Whether words of texts that are no released label may be released, and their first
            letters; of names and e-mail addresses first letters and hosts alone; of documents
            further paths.
        faker: Kind of surrogate text: one of the list of providers, as email or city.
        paths: Keys of a document whose scalars are modelled, and their types; a list is one of
            texts. ``user.name`` is a key of an object within another, ``lines.[0]`` the first
            element of an array. A value that is not of the type counts as absent.
    """

    kind: Literal["auto", "categories", "range", "text", "skip"] = "auto"
    values: list[str | int | float | bool] | None = None
    min: str | int | float | bool | None = None
    max: str | int | float | bool | None = None
    bins: Annotated[int, Field(ge=1, le=65536)] | None = None
    per_unit: Annotated[int, Field(ge=1, le=64)] = 64
    pieces: bool = True
    faker: str | None = None
    paths: dict[str, PathType] = {}

    @field_validator("paths", mode="before")
    @classmethod
    def _listed_are_texts(cls, value: Any) -> Any:
        """A list of paths are paths of texts."""
        return dict.fromkeys(map(str, value), "text") if isinstance(value, list) else value

    @field_validator("paths")
    @classmethod
    def _are_paths(cls, value: dict[str, PathType]) -> dict[str, PathType]:
        require_paths(value)
        return value

    @field_validator("min", "max", mode="before")
    @classmethod
    def _dates_are_text(cls, value: Any) -> Any:
        """Dates and times of TOML become their text."""
        return str(value) if isinstance(value, date | time) else value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.values is not None and self.kind not in ("auto", "categories"):
            raise ValueError(f"kind {self.kind!r} takes no values")
        if self.values is not None and not self.values:
            raise ValueError("values is empty")
        if self.kind == "range" and (self.min is None or self.max is None):
            raise ValueError("kind 'range' needs min and max")
        if self.paths and self.kind != "auto":
            raise ValueError(f"kind {self.kind!r} takes no paths")
        return self


class TargetConfig(_Section):
    """The table and the columns that a reference leads to.

    Attributes:
        table: Its name.
        columns: Its primary key or a UNIQUE set, in the order of the reference; none means the
            primary key.
    """

    table: str
    columns: list[str] = []


class ReferenceConfig(_Section):
    """A reference that only the application knows, since the database has no constraint for it.

    Attributes:
        columns: The columns that hold the key.
        to: What they refer to.
        type: A column that says to which of several tables the key of a row leads, in place of
            ``to``; such a key owns only if all of these lie in one tree.
        types: By the values of that column, what they stand for.
        none: Values of a single column that refer to nothing, as 0 or ''; NULL always does.
        each: Whether the column is an array, each element of which is a key.
        reason: Why ``inspect`` proposed it; nothing else reads it.
    """

    columns: Annotated[list[str], Field(min_length=1)]
    to: TargetConfig | None = None
    type: str | None = None
    types: dict[str, TargetConfig] = {}
    none: list[str | int] = []
    each: bool = False
    reason: str | None = None

    @model_validator(mode="after")
    def _has_a_target(self) -> Self:
        if (self.to is None) == (self.type is None) or (self.type is None) != (not self.types):
            raise ValueError("a reference has either 'to', or 'type' and 'types'")
        if self.types and (len(self.columns) > 1 or self.none):
            raise ValueError("a reference by 'types' has one column, and no 'none'")
        if self.each and (self.types or self.none or len(self.columns) > 1):
            raise ValueError("a reference with 'each' has one column, and no 'types' or 'none'")
        return self


class TableConfig(_Section):
    """The role of one table, and the public knowledge of its columns.

    Attributes:
        role: Private, or public: COPIED VERBATIM.
        own: Columns of the foreign key or reference whose parent owns the rows; ``[]`` makes every
            row a root. None leaves it to the proposal; a fit refuses that where there is a choice.
        bound: How a unit's rows are bounded: by weights or by truncation.
        tau: τ of the bound.
        weight: The table's share of the budget relative to the others.
        columns: Public knowledge of its columns.
        references: Its keys for which the database has no constraint.
        natural: Whether the values of its primary key are released as labels of the columns that
            refer to it, and come back in the clone: for private look-ups by a code or a date.
        shown: Whether rules that its rows may show are tested.
    """

    role: Literal["private", "public"] = "private"
    own: list[str] | None = None
    bound: Literal["weights", "truncation"] = "weights"
    tau: Annotated[int, Field(ge=1, le=64)] = 2
    weight: Annotated[float, Field(gt=0)] = 1.0
    columns: dict[str, ColumnConfig] = {}
    references: list[ReferenceConfig] = []
    natural: bool = False
    shown: bool = True

    @field_validator("own", mode="before")
    @classmethod
    def _one_owner(cls, value: Any) -> Any:
        if isinstance(value, list) and any(isinstance(item, list) for item in value):
            if len(value) > 1:
                raise ValueError(
                    "two OWN keys are declared; a table has at most one. A row that belongs to two "
                    "owners would let two privacy units share it: keep the OWN key whose subject "
                    "you protect, and leave the other out (it becomes REF: its rows stay and the "
                    "edge is hidden when its target goes)"
                )
            return value[0]
        return value


class SynthesizerConfig(_Section):
    """The section ``[synthesizer]``: which synthesizer learns the model, with its own parameters.

    Attributes:
        name: The learner, by its entry point in the group ``privbench.synthesizers``.
        options: The learner's own parameters; the learner checks them.
    """

    name: str = "privbench"
    options: dict[str, JsonValue] = {}

    @field_validator("options")
    @classmethod
    def _can_be_written(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Refuse what neither a config nor a model file can hold, before a budget is spent."""
        try:
            json.dumps(value, allow_nan=False)
            tomli_w.dumps(value)
        except (TypeError, ValueError):
            raise ValueError("no option may be None, infinite or not a number") from None
        return value


class ForeignKeyConfig(_Section):
    """A declared foreign key of a table that is read from files.

    Attributes:
        columns: Its columns.
        table: The table that it refers to.
        references: Columns there, a primary or unique key; none means the primary key.
    """

    columns: Annotated[list[str], Field(min_length=1)]
    table: str
    references: list[str] = []


class SourceTableConfig(_Section):
    """The declared types and constraints of a table that is read from files, which lack them.

    Attributes:
        columns: All its columns and their DuckDB types, in order, whatever the files hold: no other
            column is read, one that a file lacks is NULL there, and so is a value of no such type.
            Without it, columns and types are the files' own, and those of directory names are text.
        primary_key: Columns of its primary key; in place of the one that a DuckDB file declares.
        unique: Further keys, each a list of columns.
        not_null: Columns without NULL.
        foreign_keys: Its foreign keys, each with ``columns``, ``table`` and ``references``.
        leave_out: Columns that are not read: the source does not have them.
    """

    columns: dict[str, str] = {}
    primary_key: list[str] = []
    unique: list[Annotated[list[str], Field(min_length=1)]] = []
    not_null: list[str] = []
    foreign_keys: list[ForeignKeyConfig] = []
    leave_out: list[str] = []


class SourceConfig(_Section):
    """The section ``[source]`` for a DuckDB file or a folder of Parquet files.

    Attributes:
        tables: Facts of its tables.
    """

    tables: dict[str, SourceTableConfig] = {}


class Config(_Section):
    r"""The whole configuration file.

    Attributes:
        rules: SQL conditions on columns of one table that every row of the clone keeps.
        words: Words in names of tables and columns, by the English word of the tool's lists that
            they mean: ``person = ["azubi", "azubis"]``. Roles are proposed by these lists.
        computed: By table and column, the SQL expression that gives the column's value in every
            row of the clone; ``this`` is the row. Such columns are never read.

    >>> Config.loads('[privacy]\nepsilon = 3.2').privacy.epsilon
    3.2
    """

    database: DatabaseConfig = DatabaseConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    ledger: LedgerConfig = LedgerConfig()
    counting: CountingConfig = CountingConfig()
    synthesizer: SynthesizerConfig = SynthesizerConfig()
    tables: dict[str, TableConfig] = {}
    rules: dict[str, Annotated[list[str], Field(max_length=1000)]] = {}
    # One word of a name, without blanks, digits and underscores.
    words: Annotated[
        dict[str, list[Annotated[str, Field(pattern=r"^[^\W\d_]{2,60}$")]]], Field(max_length=1000)
    ] = {}
    computed: Annotated[dict[str, dict[str, str]], Field(max_length=1000)] = {}
    source: SourceConfig | None = None

    @classmethod
    def loads(cls, text: str, source: str = "config") -> Self:
        """Parse TOML text and validate it; an error names the section and key that is wrong."""
        try:
            return cls.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{source} is not valid TOML: {error}.") from error
        except ValidationError as error:
            raise refusal(source, error, cls) from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and validate a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the config {path}: {error}.") from error
        return cls.loads(text, str(path))

    def dumps(self) -> str:
        """Return the config as TOML without defaults; unusual characters in names are escaped."""
        content = self.model_dump(exclude_defaults=True, exclude_none=True)
        lines = []
        for name, section in content.get("tables", {}).items():
            for item in section.pop("references", ()):
                lines += ["", f"[[tables.{_inline(name)}.references]]"]
                lines += [f"{key} = {_inline(value)}" for key, value in item.items()]
        return toml_visible(tomli_w.dumps(content) + "\n".join([*lines, ""]))

    def changed(self, section: str, **changes: Any) -> Self:
        """Return a validated copy in which some fields of a section are changed."""
        before = getattr(self, section)
        try:
            after = before.model_validate({**before.model_dump(), **changes})
        except ValidationError as error:
            raise refusal(section, error, type(before)) from error
        return self.model_copy(update={section: after})

    def with_privacy(self, **changes: Any) -> Self:
        """Return a validated copy in which some fields of ``[privacy]`` are changed."""
        return self.changed("privacy", **changes)


def _inline(value: Any) -> str:
    """A value of TOML in one line."""
    if isinstance(value, dict):
        items = (f"{tomli_w.dumps({key: 0})[:-5]} = {_inline(item)}" for key, item in value.items())
        return f"{{ {', '.join(items)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").removesuffix("\n")


def refusal(source: str, error: ValidationError, kind: type[BaseModel]) -> ConfigError:
    """Return the error for an invalid section; it proposes similar keys for an unknown key."""
    known, lines = {key for one in _Section.__subclasses__() for key in one.model_fields}, []
    for item in error.errors():
        message = item["msg"].removeprefix("Value error, ") + "."
        if item["type"] == "extra_forbidden":
            *outer, name = map(str, item["loc"])
            near = get_close_matches(name, (known if outer else {*kind.model_fields}) - {name}, 1)
            message = "there is no such key." + (f" Did you mean {near[0]!r}?" if near else "")
        lines.append(f"[{'.'.join(map(str, item['loc']))}] {message}")
    return ConfigError(f"{source}: {' '.join(lines)}")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the config file, which editors use for completion."""
    return Config.model_json_schema()
