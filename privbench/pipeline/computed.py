"""Computed columns of the config: which columns they are, their order, and what is refused.

A computed column is public, as a rule is: the owner declares it, and no row of the source is read
for it. A fit leaves it out of the model, so that nothing is measured or spent for it; a load fills
it from the other rows of the clone (`privbench.postgres.computed`).
"""

from collections import defaultdict
from collections.abc import Mapping

from psycopg import sql

from privbench import roles
from privbench.config import Config
from privbench.encoding import role_of
from privbench.errors import ConfigError, ModelError, SchemaError
from privbench.pgsql.computed import ROW, Computation, TableColumn, computations, not_computable
from privbench.pgsql.judge import NotAllowed, QualifiedName
from privbench.pipeline.model import Model
from privbench.pipeline.rules import accepted
from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import build
from privbench.rules.computed import proposed
from privbench.schema import Schema, Table, TableName


def texts(config: Config) -> dict[str, dict[str, str]]:
    """Return the expressions of a config by table, spelled as in the catalog, and by column."""
    expressions: dict[str, dict[str, str]] = {}
    for key, columns in config.computed.items():
        expressions.setdefault(str(TableName.parse(key)), {}).update(columns)
    return expressions


def with_computed(config: Config, more: Mapping[str, Mapping[str, str]]) -> Config:
    """Return the config with further computed columns."""
    every = texts(config)
    every |= {key: {**every.get(key, {}), **columns} for key, columns in more.items()}
    return config.model_copy(update={"computed": every})


def computed(schema: Schema, config: Config) -> list[Computation]:
    """Return the computed columns of a config in the order in which they can be computed.

    Raises:
        ConfigError: A table or column is not there, is public, generated or a key, or its
            expression is refused.
    """
    if not config.computed:
        return []
    expressions: dict[TableColumn, str] = {}
    sections, keys = roles.sections(schema, config), _keys(schema)
    for key, columns in texts(config).items():
        table = schema.table(key)
        for column, text in columns.items():
            place = ((table.name.schema, table.name.name), column)
            why = _refused(table, column, keys[table.name])
            if sections[key].role == "public":
                why = "the table is public, so that its rows are copied as they are"
            if why:
                raise not_computable(place, why)
            expressions[place] = text
    tables: dict[QualifiedName, list[str]] = {
        (table.name.schema, table.name.name): [c.name for c in table.columns if not c.generated]
        for table in schema
    }
    return computations(expressions, tables)


def suggestions(schema: Schema, config: Config) -> dict[str, dict[str, str]]:
    """Return expressions for columns that names suggest, if the config may have them, by table."""
    declared, suggested = texts(config), defaultdict[str, dict[str, str]](dict)
    for table, column, text in proposed(schema):
        if column not in declared.get(table.key, ()):
            suggested[table.key].setdefault(column, text)
    while True:
        try:
            computed(schema, with_computed(config, suggested))
        except ConfigError as error:
            if suggested[error.table or ""].pop(error.column or "", None) is None:
                raise
        else:
            return {key: columns for key, columns in suggested.items() if columns}


def _keys(schema: Schema) -> dict[TableName, set[str]]:
    """Columns of keys on either side, and of UNIQUE sets, by table."""
    keys = defaultdict[TableName, set[str]](set)
    for table in schema:
        keys[table.name].update(name for item in table.unique_sets for name in item.columns)
        for key in (*table.foreign_keys, *table.arrays):
            keys[table.name].update(key.columns, key.when[:1] if key.when else ())
            keys[key.ref_table].update(key.ref_columns)
    return keys


def _refused(table: Table, name: str, keys: set[str]) -> str:
    """Why a column of a table cannot be computed, or ''."""
    existing = next((column for column in table.columns if column.name == name), None)
    if existing is None:
        return "the table has no such column"
    if existing.generated:
        return "PostgreSQL itself computes it, as a generated column"
    fixed = name in keys or role_of(table, existing) != "modelled"
    return "it is a key, or a part of one" if fixed else ""


def of_model(model: Model) -> list[Computation]:
    """Return the computed columns of a model, which may be a stranger's: errors are ModelErrors."""
    try:
        return computed(model.schema, Config.model_validate(model.config))
    except (ConfigError, SchemaError) as error:
        remedy = "The file is damaged or forged: fit the model again."
        raise ModelError(
            error.message, table=error.table, column=error.column, remedy=remedy
        ) from None


def require_resolved(connection: Connection, schema: Schema, config: Config) -> None:
    """Let the server resolve the expressions as assignments to their columns; reads no rows.

    The statements are parsed and never planned, so that not even a constant is evaluated. What the
    server answers depends on the expression and the catalog.

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
                raise not_computable((item.table, item.column), str(error)) from None
