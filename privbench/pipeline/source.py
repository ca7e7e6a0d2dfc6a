"""The source's catalog: connect, introspect, check rights. Reads no rows."""

from __future__ import annotations

from dataclasses import dataclass

from privbench.config import Config
from privbench.pipeline.rules import with_rules
from privbench.postgres.access import check_access
from privbench.postgres.connect import OF_FILES, Connection, Identity, identity
from privbench.postgres.introspect import introspect
from privbench.schema import Schema
from privbench.sources import is_file
from privbench.workload.database import refuse_computing


@dataclass(frozen=True)
class Catalog:
    """What the catalog states.

    Attributes:
        schema: The chosen tables.
        identity: The database's identity for the ledger (P27).
    """

    schema: Schema
    identity: Identity


def require_identity(source: str, config: Config) -> None:
    """Refuse files without a declared identity before they are copied; see `Identity.required`.

    Raises:
        PrivacyRefusal: The source is files, and no identity is declared.
    """
    if is_file(source) and config.database.identity is None:
        OF_FILES.required()


def read_catalog(connection: Connection, config: Config, *, access: bool = True) -> Catalog:
    """Introspect the chosen schemas, with the config's rules as CHECKs.

    Args:
        connection: To the source.
        config: Says which schemas and tables, and their rules.
        access: Also check that every table may be read, and runs nothing of users when it is.

    Raises:
        AccessDenied: A right is missing; the error names the GRANT.
        ConfigError: A rule cannot be kept.
        SchemaError: A named schema or table does not exist, or reading a table runs a function of
            users.
    """
    chosen = config.database
    schema = introspect(connection, chosen.schemas, chosen.exclude, chosen.tables)
    if access:
        check_access(connection, schema)
        refuse_computing(connection, [table.name for table in schema])
    schema = with_rules(connection, schema, config)
    return Catalog(schema, identity(connection, config.database.identity))
