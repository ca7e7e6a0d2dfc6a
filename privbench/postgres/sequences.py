"""Sequences of a clone: moved past the keys that its rows hold."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from privbench.postgres.connect import Connection
from privbench.postgres.failures import database_errors
from privbench.postgres.statement import run
from privbench.schema import Schema
from privbench.schema import Sequence as SchemaSequence


def move_sequences(connection: Connection, schema: Schema) -> None:
    """Move every sequence past the keys that its columns hold.

    Raises:
        DatabaseError: The server refused.
    """
    by_name = {sequence.name: sequence for sequence in schema.sequences}
    users: dict[SchemaSequence, list[sql.Composable]] = {}
    for table in schema:
        for column in table.columns:
            sequence = by_name.get(column.sequence) if column.sequence else None
            if sequence is not None and column.type.category == "N":
                users.setdefault(sequence, []).append(
                    sql.SQL("SELECT {}::numeric AS k FROM {}").format(
                        sql.Identifier(column.name),
                        sql.Identifier(table.name.schema, table.name.name),
                    )
                )
    with database_errors("setting sequences"):
        for sequence, columns in users.items():
            run(connection, _setval(sequence, columns))


def _setval(sequence: SchemaSequence, columns: Sequence[sql.Composable]) -> sql.Composed:
    rising = sequence.increment > 0
    return sql.SQL(
        "SELECT pg_catalog.setval({name}, greatest({low}, least({high}, {last}))::bigint)"
        " FROM ({keys}) AS keys HAVING count(k) > 0"
    ).format(
        name=sql.Literal(str(sequence.name)),
        low=sql.Literal(sequence.minimum),
        high=sql.Literal(sequence.maximum),
        last=sql.SQL("ceil(max(k))" if rising else "floor(min(k))"),
        keys=sql.SQL(" UNION ALL ").join(columns),
    )
