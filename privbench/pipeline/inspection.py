"""``inspect`` and ``check``: what the catalog alone tells. Neither reads rows."""

from __future__ import annotations

from dataclasses import dataclass

from privbench import roles
from privbench.config import Config
from privbench.encoding import CoverageLine
from privbench.pipeline.literals import literals, require_reviewed, seal
from privbench.pipeline.prepare import FitPlan, prepare, require_decided
from privbench.pipeline.source import Catalog, read_catalog
from privbench.postgres.ddl import dump_ddl
from privbench.postgres.reading import reading
from privbench.schema import Schema, TableName


@dataclass(frozen=True)
class Inspection:
    """The proposal for a database, and what it would do to every column.

    Attributes:
        catalog: What the catalog states.
        proposal: Proposed roles.
        config: The proposal as a config.
        coverage: How every column would be made.
    """

    catalog: Catalog
    proposal: roles.Proposal
    config: Config
    coverage: list[CoverageLine]

    def render(self) -> str:
        """Plain text for people."""
        sections = self.config.tables.items()
        public = {str(TableName.parse(name)) for name, item in sections if item.role == "public"}
        return "\n\n".join(
            [
                f"{_counted(self.catalog.schema)}. Identity: {self.catalog.identity}.",
                self.proposal.render(frozenset(public)),
                render_coverage(self.coverage),
            ]
        )


def inspect(
    source: str,
    schemas: list[str] | None = None,
    *,
    base: Config | None = None,
    lookups: str = "private",
) -> Inspection:
    """Propose roles and domains from the catalog.

    Args:
        source: DSN of the source.
        schemas: PostgreSQL schemas to look at; None means all of users.
        base: Config whose decisions stay.
        lookups: ``private``, or ``public`` to declare look-up candidates public.

    Raises:
        DatabaseError: The source refused.
        SchemaError: A table cannot be honoured even with the proposed roles.
    """
    config = base or Config()
    if schemas is not None:
        section = config.database.model_copy(update={"schemas": schemas})
        config = config.model_copy(update={"database": section})
    with reading(source) as connection:
        catalog = read_catalog(connection, config, access=False)
    proposal = roles.propose(catalog.schema)
    filled = proposal.to_config(config, "public" if lookups == "public" else "private")
    return Inspection(catalog, proposal, filled, prepare(catalog.schema, filled).coverage())


@dataclass(frozen=True)
class Check:
    """A config held against the live schema.

    Attributes:
        plan: The plan that a fit would follow.
        undecided: Tables that the config does not name: their rows become roots.
        literals: Literals in the DDL, which is public by contract: look once.
    """

    plan: FitPlan
    undecided: tuple[str, ...]
    literals: tuple[str, ...]

    def render(self) -> str:
        """Plain text for people."""
        parts = [f"{_counted(self.plan.schema)}. The config fits the live schema."]
        if self.undecided:
            parts.append(
                "Not named in the config, so every row of them is a privacy unit of its own: "
                + ", ".join(self.undecided)
                + "."
            )
        parts.append(render_coverage(self.plan.coverage()))
        if self.literals:
            parts.append(render_literals(self.literals))
            parts.append(_signed(self.plan.config, self.literals))
        return "\n\n".join(parts)


def check(config: Config, source: str) -> Check:
    """Hold a config against the live schema; refuses what a fit would refuse.

    Raises:
        ConfigError: The config names what does not exist, or asks for what cannot be.
        SchemaError: The roles break the privacy contract, or a table cannot be honoured.
        DatabaseError: The source refused.
    """
    with reading(source) as connection:
        catalog = read_catalog(connection, config)
        plan = prepare(catalog.schema, config)
        require_decided(plan)
        travels = tuple(literals(dump_ddl(connection, catalog.schema)))
    require_reviewed(config, travels)
    named = {str(TableName.parse(name)) for name in config.tables}
    undecided = tuple(table.key for table in catalog.schema if table.key not in named)
    return Check(plan, undecided, travels)


def ddl_literals(source: str, config: Config) -> tuple[str, ...]:
    """Statements of the schema that hold values, cut to the lines that do; they travel (P4).

    Raises:
        DatabaseError: The source refused.
    """
    with reading(source) as connection:
        catalog = read_catalog(connection, config)
        return tuple(literals(dump_ddl(connection, catalog.schema)))


def render_literals(lines: tuple[str, ...]) -> str:
    """The values that travel, as text."""
    listed = "\n".join(f"  {line}" for line in lines)
    return f"Values in the schema travel with the clone (look at them once):\n{listed}"


def _signed(config: Config, lines: tuple[str, ...]) -> str:
    """Whether the values are signed off, and how to do that."""
    if config.privacy.ddl_reviewed is not None:
        return "They are the values that [privacy] ddl_reviewed was given for."
    return (
        "Once you have looked at them, this line in [privacy] makes every fit refuse others:\n"
        f'  ddl_reviewed = "{seal(lines)}"'
    )


def render_coverage(lines: list[CoverageLine]) -> str:
    """The coverage map as aligned text."""
    places = [f"{line.table}.{line.column}" for line in lines]
    width = max((len(place) for place in places), default=0)
    made = max((len(line.how) for line in lines), default=0)
    rows = [
        f"  {place:<{width}}  {line.how:<{made}}  {line.why}".rstrip()
        for place, line in zip(places, lines, strict=True)
    ]
    return "\n".join(["Coverage of every column:", *rows])


def _counted(schema: Schema) -> str:
    keys = sum(len(table.foreign_keys) for table in schema)
    columns = sum(len(table.columns) for table in schema)
    return f"{len(schema.tables)} tables, {columns} columns, {keys} foreign keys"
