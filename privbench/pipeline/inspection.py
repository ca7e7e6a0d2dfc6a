"""The commands ``inspect`` and ``check``, which use the catalog alone and read no rows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby

from privbench import roles
from privbench.config import ColumnConfig, Config
from privbench.display import Lines, lines, paragraphs, table
from privbench.encoding import CoverageLine, role_of
from privbench.errors import SchemaError
from privbench.pipeline.computed import suggestions, with_computed
from privbench.pipeline.literals import require_reviewed, seal
from privbench.pipeline.prepare import FitPlan, prepare, require_decided
from privbench.pipeline.source import Catalog, estimated_sizes, look, require_used
from privbench.postgres.connect import Identity
from privbench.rules.documents import named_paths
from privbench.schema import Schema, Table, TableName
from privbench.words import own_words


@dataclass(frozen=True)
class Inspection:
    """The proposed roles for a database, and how every column would be modelled."""

    identity: Identity  # the database's identity for the ledger
    proposal: roles.Proposal  # proposed roles
    plan: FitPlan  # the plan that a fit would follow with them
    # Rows of every table by the planner's estimate, which is confidential; only if asked for.
    sizes: Mapping[str, float] = field(default_factory=dict)
    # Columns that names say are computed, and that the config does not have: by table.
    suggested: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        """The proposal as a config."""
        return self.plan.config

    def dumps(self) -> str:
        """Return the proposal as TOML, with mere suggestions in comments at its end."""
        if not self.suggested:
            return self.config.dumps()
        head = "Names say that these columns are computed. Take the # from what is so:"
        listed = with_computed(Config(), self.suggested).dumps()
        comments = "\n".join(f"# {line}".rstrip() for line in [head, *listed.splitlines()])
        return f"{self.config.dumps()}\n{comments}\n"

    def render(self, *, whole: bool = True, width: int | None = None) -> Lines:
        """Return the proposal as plain text; see `render_coverage`."""
        schema = self.plan.schema
        loose = ", ".join(f"{table.key}.{name}" for table in schema for name in table.loose)
        left_out = f"Keys of tables that are left out, so NULL or a constant in the clone: {loose}."
        public = frozenset(item.table.key for item in self.plan.public)
        return paragraphs(
            f"{_counted(schema)}. Identity: {self.identity}.",
            *([left_out] if loose else []),
            roles.render(self.proposal, public),
            *([roles.render_sizes(self.proposal, self.sizes)] if self.sizes else []),
            render_coverage(self.plan.coverage(), whole=whole, width=width),
        )


def inspect(
    source: str,
    *,
    base: Config | None = None,
    lookups: str = "private",
    catalog: Catalog | None = None,
    sizes: bool = False,
    computed: bool = False,
) -> Inspection:
    """Propose roles and domains from the catalog.

    Decisions of the base config stay. ``lookups="public"`` declares look-up candidates public. With
    `computed`, columns become computed if their names say how; otherwise that is only suggested.
    With `sizes`, the planner's estimates are shown, too, and the config says that they were; the
    proposal does not depend on them.
    """
    config = base or Config()
    estimates = estimated_sizes(source, config) if sizes else {}
    config = config.with_privacy(sizes_shown=True) if sizes else config
    catalog = catalog or look(source, config, access=False, dump=False)
    settled = {
        str(TableName.parse(name))
        for name, section in config.tables.items()
        if "references" in section.model_fields_set
    }
    with own_words(config.words):
        proposal = roles.propose(catalog.schema, settled)
    filled = proposal.to_config(config, "public" if lookups == "public" else "private")
    filled = _with_columns(filled, catalog.schema)
    schema = roles.referenced(catalog.schema, filled)
    suggested = suggestions(schema, filled)
    if computed:
        filled, suggested = with_computed(filled, suggested), {}
    return Inspection(catalog.identity, proposal, prepare(schema, filled), estimates, suggested)


def agreed_catalog(source: str, catalog: Catalog, inspection: Inspection) -> Catalog:
    """Return the catalog to fit with, after the user has accepted the proposal made from this one.

    The server's key comparisons are read only for declared keys: where references are proposed, the
    catalog is read again. A SchemaError is raised if the schema has changed since it was shown, so
    that no value of the schema is released that nobody has seen.
    """
    if not inspection.proposal.undeclared:
        return catalog
    again = look(source, inspection.config)
    if again.ddl != catalog.ddl:
        raise SchemaError(
            "the schema was changed since it was shown.", remedy="Run the command again."
        )
    return again


def _with_columns(config: Config, schema: Schema) -> Config:
    """The config, completed by what the catalog states about columns beyond their types.

    Keys that refer to tables which are left out are skipped: their values would reveal which record
    many rows refer to, and no event would be charged.
    """
    tables = dict(config.tables)
    for name, section in config.tables.items():
        if name in schema and section.role == "private":
            columns = {**_from_catalog(schema.table(name)), **section.columns}
            tables[name] = section.model_copy(update={"columns": columns})
    return config.model_copy(update={"tables": tables})


def _from_catalog(table: Table) -> dict[str, ColumnConfig]:
    """Config of modelled columns, as far as the catalog states more than their types."""
    columns = {name: ColumnConfig(kind="skip") for name in table.loose}
    columns = {n: ColumnConfig(paths=paths) for n, paths in named_paths(table).items()} | columns
    return {
        name: item
        for name, item in columns.items()
        if role_of(table, table.column(name)) == "modelled"
    }


@dataclass(frozen=True)
class PlanCheck:
    """The result of checking a config against the live schema."""

    plan: FitPlan
    undecided: tuple[str, ...]  # tables that the config does not name: their rows become roots
    literals: tuple[str, ...]  # literals in the DDL, which becomes public; the owner reviews them

    def render(self, *, whole: bool = True, width: int | None = None) -> Lines:
        """Return the result as plain text; see `render_coverage`."""
        parts = [f"{_counted(self.plan.schema)}. The config fits the live schema."]
        if self.undecided:
            parts.append(
                "Not named in the config, so every row of them is a privacy unit of its own: "
                + ", ".join(self.undecided)
                + "."
            )
        parts.append(render_coverage(self.plan.coverage(), whole=whole, width=width))
        if self.literals:
            parts.append(render_literals(self.literals))
            parts.append(
                "They are the values that [privacy] ddl_reviewed was given for."
                if self.plan.config.privacy.ddl_reviewed is not None
                else lines(
                    "Once you have looked at them, this line in [privacy] makes every fit refuse "
                    "others:",
                    f'  ddl_reviewed = "{seal(self.literals)}"',
                )
            )
        return paragraphs(*parts)


def check(config: Config, source: str) -> PlanCheck:
    """Compare a config with the live schema; refuse what a fit would refuse."""
    require_used(source, config)
    catalog = look(source, config)
    plan = prepare(catalog.schema, config)
    require_decided(plan)
    require_reviewed(config, catalog.literals)
    named = {str(TableName.parse(name)) for name in config.tables}
    undecided = tuple(table.key for table in catalog.schema if table.key not in named)
    return PlanCheck(plan, undecided, catalog.literals)


def render_literals(values: tuple[str, ...]) -> Lines:
    """Return as text the values of the DDL that become part of a model."""
    head = "Values in the schema travel with the clone (look at them once):"
    return lines(head, *(f"  {line}" for line in values))


def render_coverage(
    columns: list[CoverageLine], *, whole: bool = True, width: int | None = None
) -> Lines:
    """Return how every column (or with ``whole=False`` every table) is made, as aligned text.

    Lines are cut at `width` characters; None means any number.
    """
    if whole:
        head = "Coverage of every column:"
        cells = [(f"{line.table}.{line.column}", line.how, line.why) for line in columns]
    else:
        head = "Coverage of every table (of every column: -v):"
        tables = groupby(columns, key=lambda line: line.table)
        cells = [(table, *_in_short([line.how for line in some])) for table, some in tables]
    return lines(head, *table(cells, width=width))


def _in_short(ways: list[str]) -> tuple[str, str]:
    """How many columns a table has, and in which ways they are made."""
    counts = Counter(way.partition(", ")[0] for way in ways)
    listed = (f"{way} ({count})" if count > 1 else way for way, count in counts.most_common())
    return f"{len(ways):>4}", ", ".join(listed)


def _counted(schema: Schema) -> str:
    keys = sum(len(table.foreign_keys) for table in schema)
    columns = sum(len(table.columns) for table in schema)
    return f"{len(schema.tables)} tables, {columns} columns, {keys} foreign keys"
