"""Read the source's catalog once per command: schema, identity, DDL. No rows are read."""

from dataclasses import dataclass
from functools import cached_property

from privbench import roles
from privbench.config import Config
from privbench.errors import ConfigError
from privbench.pipeline.computed import require_resolved
from privbench.pipeline.literals import literals
from privbench.pipeline.rules import with_declared
from privbench.postgres import catalog
from privbench.postgres.connect import OF_FILES, Connection, Identity, identity
from privbench.postgres.ddl import Ddl, dump_ddl
from privbench.postgres.introspect import check_access, introspect, with_equalities
from privbench.postgres.reading import reading
from privbench.schema import Schema, TableName
from privbench.sources import is_file, staged
from privbench.workload.database import refuse_computing

NO_DDL = Ddl("", "")


@dataclass(frozen=True)
class Catalog:
    """The part of the source's catalog that the config selects."""

    schema: Schema  # the chosen tables
    identity: Identity  # the database's identity for the ledger
    # The tables' DDL, which becomes part of the model; empty where pg_dump was not run.
    ddl: Ddl = NO_DDL
    # Whether its expressions were rehearsed (`pipeline.rehearsal`): then columns have formats, and
    # there is a line for each expression that no made value passes.
    rehearsed: bool = False
    findings: tuple[str, ...] = ()

    @cached_property
    def literals(self) -> tuple[str, ...]:
        """Return the lines with values in the DDL's statements."""
        return tuple(literals(self.ddl))


def estimated_sizes(source: str, config: Config) -> dict[str, float]:
    """Return the planner's estimate of every table's rows: CONFIDENTIAL, and not used by a fit."""
    with staged(source, config, rows=False) as here, reading(here) as connection:
        rows = catalog.ask(connection, catalog.SIZES, {})
    return {str(TableName(row.schema, row.name)): row.rows for row in rows}


def require_identity(source: str, config: Config) -> None:
    """Refuse a source of files without a declared identity, before the files are copied.

    See `Identity.required`.
    """
    if is_file(source) and config.database.identity is None:
        OF_FILES.required()


def require_used(source: str, config: Config) -> None:
    """Refuse a config that describes files if the source is a PostgreSQL database.

    Raises:
        ConfigError: The config has some.
    """
    for name in config.source.tables if config.source and not is_file(source) else ():
        raise ConfigError(
            "[source.tables] is for sources that are files, and nothing of it is used for this "
            "database.",
            table=name,
            remedy=f"Declare its keys as [[tables.{name!r}.references]], with columns and to; take "
            "[source] out of the config.",
        )


def require_epsilon(config: Config) -> Config:
    """Return the config if it gives ε; else raise a `ConfigError`."""
    if config.privacy.epsilon is None:
        raise ConfigError(
            "no ε is given.", remedy="Use --epsilon, or epsilon under [privacy] in the config."
        )
    return config


def look(source: str, config: Config, *, access: bool = True, dump: bool = True) -> Catalog:
    """Read a source's catalog and DDL; see `read_catalog`."""
    with staged(source, config, rows=False) as here, reading(here) as connection:
        return read_catalog(connection, config, access=access, dump=dump)


def read_catalog(
    connection: Connection, config: Config, *, access: bool = True, dump: bool = False
) -> Catalog:
    """Introspect the chosen schemas; with `dump`, also run pg_dump.

    The config's rules become CHECKs of the schema, and its references become keys.

    With `access`, also check that every table may be read and that reading it runs no function of
    users.

    Raises:
        AccessDenied: A right is missing; the error names the GRANT.
        ConfigError: A rule of the config cannot become a CHECK, or a reference a key.
        SchemaError: A named schema or table does not exist, or reading a table runs a function of
            users.
        UsageError: There is no pg_dump of the server's version.
    """
    chosen = config.database
    schema = introspect(connection, chosen.schemas, chosen.exclude, chosen.tables)
    if access:
        check_access(connection, schema)
        refuse_computing(connection, [table.name for table in schema])
    schema = roles.referenced(with_declared(connection, schema, config), config)
    schema = with_equalities(connection, schema)
    require_resolved(connection, schema, config)
    known = identity(connection, config.database.identity)
    return Catalog(schema, known, dump_ddl(connection, schema) if dump else NO_DDL)
