"""Computed columns of the config: which they are, in which order, and what is refused.

A computed column is public, as a rule is: the owner declares it, and no row of the source is read
for it. A fit leaves it out of the model, so that nothing is measured or spent for it; a load fills
it from the other rows of the clone (`privbench.postgres.computed`).
"""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import sql

from privbench import roles
from privbench.config import Config
from privbench.encoding import role_of
from privbench.errors import ConfigError, ModelError, SchemaError
from privbench.pgsql.computed import ROW, Computation, NotComputable, Place, computations
from privbench.pgsql.judge import Name, NotAllowed
from privbench.pipeline.model import Model
from privbench.pipeline.rules import accepted, one_line
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build
from privbench.rules.computed import proposed
from privbench.schema import Schema, Table, TableName

_KEY = "it is a key, or a part of one"


def computed(schema: Schema, config: Config) -> list[Computation]:
    """The computed columns of a config in order of dependence.

    Raises:
        ConfigError: A table or column is not there, is public, generated or a key, or its
            expression is refused.
    """
    texts: dict[Place, str] = {}
    sections = roles.sections(schema, config)
    keys = [key for table in schema for key in table.foreign_keys] if config.computed else []
    referred = {(key.ref_table, name) for key in keys for name in key.ref_columns}
    for key, columns in config.computed.items():
        name = TableName.parse(key)
        if name not in schema or list(map(TableName.parse, config.computed)).count(name) > 1:
            what = "[computed] names this table twice, or the schema has no such table."
            raise ConfigError(what, table=str(name), remedy="Take it out of the config.")
        table = schema.table(name)
        for column, text in columns.items():
            why = _refused(table, column, public=sections[table.key].role == "public")
            if not why and (name, column) in referred:
                why = _KEY
            if why:
                raise _error(((name.schema, name.name), column), why)
            texts[(name.schema, name.name), column] = text
    tables: dict[Name, list[str]] = {
        (table.name.schema, table.name.name): [c.name for c in table.columns if not c.generated]
        for table in schema
    }
    try:
        return computations(texts, tables)
    except NotComputable as error:
        raise _error(error.place, str(error)) from None


def suggestions(schema: Schema, config: Config) -> dict[str, dict[str, str]]:
    """Expressions that names suggest, by table and column, as far as the config may have them."""
    declared, found = names_of(config), dict[str, dict[str, str]]()
    for table, column, text in proposed(schema):
        if column not in declared.get(table.key, ()):
            found.setdefault(table.key, {}).setdefault(column, text)
    while found:
        try:
            computed(schema, with_computed(config, found))
            break
        except ConfigError as error:
            if found.get(error.table or "", {}).pop(error.column or "", None) is None:
                raise
            found = {key: columns for key, columns in found.items() if columns}
    return found


def with_computed(config: Config, more: Mapping[str, Mapping[str, str]]) -> Config:
    """The config with further computed columns."""
    every = {str(TableName.parse(key)): columns for key, columns in config.computed.items()}
    every |= {key: {**every.get(key, {}), **columns} for key, columns in more.items()}
    return config.model_copy(update={"computed": every})


def _refused(table: Table, name: str, *, public: bool) -> str:
    """Why a column of a table cannot be computed, or ''."""
    if public:
        return "the table is public, so that its rows are copied as they are"
    found = next((column for column in table.columns if column.name == name), None)
    if found is None:
        return "the table has no such column"
    if found.generated:
        return "PostgreSQL itself computes it, as a generated column"
    keys = {column for item in table.unique_sets for column in item.columns} | table.key_columns
    keys.update(key.when[0] for key in table.foreign_keys if key.when)
    keys.update(column for key in table.arrays for column in key.columns)
    if name in keys or role_of(table, found) != "modelled":
        return _KEY
    return ""


def _error(place: Place, why: str) -> ConfigError:
    (space, table), column = place
    return ConfigError(
        f"it cannot be computed: {one_line(why)}.",
        table=str(TableName(space, table)),
        column=column,
        remedy=f"Change or remove its line under [computed]; {ROW} is the row, and docs/rules.md "
        "shows expressions that work.",
    )


def of_model(model: Model) -> list[Computation]:
    """The computed columns of a model, which may be a stranger's: errors are ModelErrors."""
    try:
        return computed(model.schema, Config.model_validate(model.config))
    except (ConfigError, SchemaError) as error:
        remedy = "The file is damaged or forged: fit the model again."
        raise ModelError(
            error.message, table=error.table, column=error.column, remedy=remedy
        ) from None


def names_of(config: Config) -> Mapping[str, frozenset[str]]:
    """The names of the computed columns of each table."""
    return {
        str(TableName.parse(key)): frozenset(columns) for key, columns in config.computed.items()
    }


def require_resolved(connection: Connection, schema: Schema, config: Config) -> None:
    """Let the server resolve the expressions, as assignments to their columns; reads no rows.

    The statements are parsed and never planned, so that not even a constant is evaluated. What the
    server says of them depends on the expression and the catalog.

    Raises:
        ConfigError: An expression is refused by `computed`, or by the server.
    """
    for item in computed(schema, config):
        name = TableName(*item.table)
        insert = (
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT made.* FROM {} AS {} "
            "CROSS JOIN LATERAL (SELECT ({})) AS made"
        )
        text = build(insert, name, [item.column], name, ROW, sql.SQL(f"{item.text}\n"))
        with database_errors("resolving a computed column", str(name)), connection.transaction():
            try:
                accepted(connection.pgconn.prepare(b"", text.as_bytes(None)))
            except NotAllowed as error:
                raise _error((item.table, item.column), str(error)) from None
