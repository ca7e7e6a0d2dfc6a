"""The source's catalog, read once per command: schema, identity, DDL. Reads no rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from privbench.config import Config
from privbench.errors import ConfigError
from privbench.pipeline.literals import literals
from privbench.pipeline.rules import with_rules
from privbench.postgres.connect import OF_FILES, Connection, Identity, identity
from privbench.postgres.ddl import Ddl, dump_ddl
from privbench.postgres.introspect import check_access, introspect
from privbench.postgres.reading import reading
from privbench.schema import Schema
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
        """Statements of the DDL that hold values, cut to the lines that do."""
        return tuple(literals(self.ddl))


def require_identity(source: str, config: Config) -> None:
    """Refuse a source of files without a declared identity, before the files are copied.

    See `Identity.required`.
    """
    if is_file(source) and config.database.identity is None:
        OF_FILES.required()


def require_epsilon(config: Config) -> Config:
    """The config, if it gives ε; else a `ConfigError`."""
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
    """Introspect the chosen schemas, with the config's rules as CHECKs; `dump` runs pg_dump too.

    With `access`, also check that every table may be read and that reading it runs no function of
    users.

    Raises:
        AccessDenied: A right is missing; the error names the GRANT.
        ConfigError: A rule of the config cannot become a CHECK.
        SchemaError: A named schema or table does not exist, or reading a table runs a function of
            users.
        UsageError: There is no pg_dump of the server's version.
    """
    chosen = config.database
    schema = introspect(connection, chosen.schemas, chosen.exclude, chosen.tables)
    if access:
        check_access(connection, schema)
        refuse_computing(connection, [table.name for table in schema])
    schema = with_rules(connection, schema, config)
    known = identity(connection, config.database.identity)
    return Catalog(schema, known, dump_ddl(connection, schema) if dump else NO_DDL)
