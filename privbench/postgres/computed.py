"""Computed columns: filled in a load from the other rows of the clone, set by set.

A table that has some is renamed, and a staging table takes its name and the rows that are copied.
So the expressions run unchanged, as they were judged, whatever they read of each other's tables.
Once all rows are there, each level of dependence is one INSERT … SELECT a table, from its staging
table to the next one, or at last to the table itself: no row is ever updated, which would double
the table on disk. All of it lies before CHECKs, keys and indexes, and in the load's transaction.

Expressions may be a stranger's. They are judged before (`privbench.pgsql.computed`), run as the
load's role with its settings, and have limited time together. Where one fails for some row, each
row is computed by itself: the column keeps its stand-in there (NULL, its default or a constant),
which is counted and told. So an expression never stops a load.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import count
from typing import Any, LiteralString

import psycopg
from psycopg import errors, sql

from privbench.pgsql.computed import ROW, Computation
from privbench.postgres import staging
from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.statement import Part, build, run
from privbench.schema import Table, TableName

#: Seconds that all expressions may take, and further ones for each row of the clone.
PATIENCE, PER_ROW = 60.0, 1e-4
_MADE, _FAILED = "privbench made", "privbench failed"
_TOGETHER: LiteralString = """
INSERT INTO {target} ({columns}) OVERRIDING SYSTEM VALUE
SELECT {values} FROM {stage} AS {row} CROSS JOIN LATERAL (SELECT {computed}) AS {made}
"""
_EACH: LiteralString = """
    BEGIN
      {made}.{column} := ({text});
      IF {needed} AND {made}.{column} IS NULL THEN RAISE not_null_violation; END IF;
    EXCEPTION WHEN OTHERS THEN
      {made}.{column} := {row}.{column};
      {failed}[{place}] := {failed}[{place}] + 1;
    END;
"""
_SINGLY: LiteralString = """
#variable_conflict use_column
DECLARE {row} {stage}; {made} {stage};
  {failed} bigint[] := pg_catalog.array_fill(0::bigint, ARRAY[{number}]);
BEGIN
  FOR {row} IN SELECT * FROM {stage} LOOP
    {made} := {row};
    {each}
    INSERT INTO {target} OVERRIDING SYSTEM VALUE SELECT {made}.*;
  END LOOP;
  RETURN {failed};
END
"""


class Computing:
    """The computed columns of one load: begun before its rows are copied, finished afterwards.

    Attributes:
        tables: The tables that have some, by name.
        lost: Of each table, how many rows it does not take, as their generated columns fail.
        told: A line for each column that has stand-ins, with the number of rows.
    """

    def __init__(self, loader: Loader, columns: Sequence[Computation]) -> None:
        self._connection, self._columns = loader.connection, columns
        self.tables = {(name := TableName(*c.table)): loader.table(name) for c in columns}
        self._numbers, self._left = count(), 0.0
        self._aside = {name: self._free(name) for name in self.tables}
        self.lost: dict[str, int] = {}
        self.told: list[str] = []

    def begin(self) -> None:
        """Put staging tables in the place of the tables."""
        with database_errors("making room for computed columns"):
            for name, aside in self._aside.items():
                self._rename(name, aside)
                self._stage(name, name)

    def finish(self, rows: int) -> None:
        """Compute the columns, for a clone with so many rows, and put the tables in place again."""
        self._left = PATIENCE + rows * PER_ROW
        # To compile such statements takes longer than to run them.
        run(self._connection, "SET LOCAL jit = off")
        for level in sorted({item.level for item in self._columns}):
            self._fill_level([item for item in self._columns if item.level == level])

    def _fill_level(self, columns: Sequence[Computation]) -> None:
        """Compute columns that do not depend on each other."""
        by_table = defaultdict[TableName, list[Computation]](list)
        for item in columns:
            by_table[TableName(*item.table)].append(item)
        indexes, filled = self._index({place for c in columns for place in c.compared}), {}
        for name, some in by_table.items():
            with database_errors("computing columns", str(name)):
                filled[name] = self._fill(self.tables[name], some)
        with database_errors("putting tables in place"):
            for index in indexes:
                run(self._connection, build("DROP INDEX {}", index))
            for name, made in filled.items():
                run(self._connection, build("DROP TABLE {}", name))
                self._rename(made, name)

    def _fill(self, table: Table, columns: Sequence[Computation]) -> TableName:
        """Copy a staging table, with some computed columns; returns where the rows are.

        That is the table itself if no column of it is left to be computed.
        """
        later = any(
            c.table == columns[0].table and c.level > columns[0].level for c in self._columns
        )
        target = self._stage(table.name) if later else self._aside[table.name]
        names = [column.name for column in table.columns if not column.generated]
        parts: dict[str, Part] = {"stage": table.name, "row": ROW, "made": _MADE}
        at = {item.column: str(place) for place, item in enumerate(columns)}
        together = build(
            _TOGETHER,
            target=target,
            columns=names,
            values=[sql.Identifier(*((_MADE, at[n]) if n in at else (ROW, n))) for n in names],
            computed=[build("({}) AS {}", _text(c), at[c.column]) for c in columns],
            **parts,
        )
        if self._limited(together) is not None:
            return target
        staged = target if later else self._stage(table.name)
        failed = self._fill_singly(table, columns, staged, parts)
        self._tell(table, columns, failed)
        if failed is None or not later:
            given = table.name if failed is None else staged
            taken = staging.insert(
                self._connection, stage=build("{}", given), columns=names, table=build("{}", target)
            )
            ((rows,),) = run(self._connection, build("SELECT count(*) FROM {}", given)).fetchall()
            self.lost[table.key] = rows - taken
        if not later:
            run(self._connection, build("DROP TABLE {}", staged))
        return target

    def _fill_singly(
        self,
        table: Table,
        columns: Sequence[Computation],
        target: TableName,
        parts: dict[str, Part],
    ) -> list[int] | None:
        """Compute row by row; returns for how many rows each column fails, or None for all rows."""
        needed = {column.name for column in table.columns if column.not_null}
        each = [
            build(
                _EACH,
                column=item.column,
                text=_text(item),
                needed=sql.SQL("true" if item.column in needed else "false"),
                failed=_FAILED,
                place=place,
                **parts,
            )
            for place, item in enumerate(columns, start=1)
        ]
        body = build(
            _SINGLY,
            target=target,
            failed=_FAILED,
            number=len(columns),
            each=sql.Composed(each),
            **parts,
        )
        function = sql.Identifier("pg_temp", self._free(table.name).name)
        made = "CREATE FUNCTION {}() RETURNS bigint[] LANGUAGE plpgsql AS {}"
        text = sql.Literal(body.as_string(self._connection))
        if self._limited(build(made, function, text)) is None:
            return None
        counted = self._limited(build("SELECT {}()", function))
        return None if counted is None else list(counted[0][0])

    def _tell(
        self, table: Table, columns: Sequence[Computation], failed: Sequence[int] | None
    ) -> None:
        late = " in the time that all of them may take together" if self._left <= 0 else ""
        counts = [-1] * len(columns) if failed is None else failed
        for item, number in zip(columns, counts, strict=True):
            if number:
                where = f"{number:,} rows" if number > 0 else f"all rows{late}"
                self.told.append(
                    f"{table.key}.{item.column} is not computed for {where}, "
                    "which have NULL, its default or a constant there"
                )

    def _index(self, places: Collection[Any]) -> list[TableName]:
        """Index columns by which rows are looked up, as far as their types allow it."""
        made, columns = [], defaultdict[TableName, list[str]](list)
        for table, column in sorted(places):
            name = TableName(*table)
            index = self._free(name)
            if self._limited(build("CREATE INDEX {} ON {} ({})", index.name, name, column)) is None:
                continue
            made.append(index)
            columns[name].append(column)
        for name, some in columns.items():
            # Without statistics the server would read whole tables for each row.
            self._limited(build("ANALYZE {} ({})", name, some))
        return made

    def _limited(self, statement: sql.Composed) -> list[Any] | None:
        """Run a statement within the time that is left; its rows, or None if it fails."""
        begun, patience = time.monotonic(), self._left
        if patience <= 0:
            return None
        limit = "SET LOCAL statement_timeout = {}"
        try:
            with self._connection.transaction():
                run(self._connection, build(limit, sql.Literal(max(1, int(patience * 1000)))))
                cursor = run(self._connection, statement)
                rows = cursor.fetchall() if cursor.description else []
                run(self._connection, build(limit, sql.Literal(0)))
            return rows
        except psycopg.Error as error:
            stopped = isinstance(error, errors.QueryCanceled)
            if self._connection.closed or (stopped and time.monotonic() - begun < patience):
                raise
            return None
        finally:
            self._left -= time.monotonic() - begun

    def _stage(self, of: TableName, name: TableName | None = None) -> TableName:
        """Make a staging table for the rows of a table."""
        name, aside = name or self._free(of), self._aside[of]
        made = "CREATE UNLOGGED TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING IDENTITY)"
        run(self._connection, build(made, name, aside))
        for column in self.tables[of].columns:
            if column.generated:
                run(self._connection, build("ALTER TABLE {} DROP COLUMN {}", name, column.name))
        return name

    def _rename(self, name: TableName, new: TableName) -> None:
        run(self._connection, build("ALTER TABLE {} RENAME TO {}", name, new.name))

    def _free(self, beside: TableName) -> TableName:
        """A name that nothing has, in the schema of a table."""
        return TableName(beside.schema, f"privbench computed {next(self._numbers)}")


def _text(item: Computation) -> sql.Composable:
    return sql.SQL(f"{item.text}\n")
