"""The source's catalog: connect, introspect, check rights. Reads no rows."""

from __future__ import annotations

from dataclasses import dataclass

from privbench.config import Config
from privbench.postgres.access import check_access
from privbench.postgres.connect import Connection, identity
from privbench.postgres.introspect import introspect
from privbench.schema import Schema


@dataclass(frozen=True)
class Catalog:
    """What the catalog states.

    Attributes:
        schema: The chosen tables.
        identity: The database's identity for the ledger (P27).
        basis: What the identity is made of.
    """

    schema: Schema
    identity: str
    basis: str


def read_catalog(connection: Connection, config: Config, *, access: bool = True) -> Catalog:
    """Introspect the chosen schemas.

    Args:
        connection: To the source.
        config: Says which schemas and tables.
        access: Also check that every table may be read.

    Raises:
        AccessDenied: A right is missing; the error names the GRANT.
        SchemaError: A named schema or table does not exist.
    """
    schema = introspect(connection, config.database.schemas, config.database.exclude)
    if access:
        check_access(connection, schema)
    declared = config.database.identity
    if declared is not None:
        return Catalog(schema, declared, "declared in the config")
    found = identity(connection)
    return Catalog(schema, str(found), found.basis)
