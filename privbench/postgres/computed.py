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
from collections.abc import Collection, Sequence
from itertools import count
from typing import LiteralString

import psycopg
from psycopg import errors, sql

from privbench.pgsql.computed import ROW, Computation, Place
from privbench.postgres import staging
from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.reading import assignment
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
      {made}.{column} := {text};
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
    BEGIN
      INSERT INTO {target} ({columns}) OVERRIDING SYSTEM VALUE SELECT {made}.*;
    EXCEPTION {refused} THEN NULL;
    END;
  END LOOP;
  PERFORM pg_catalog.set_config('privbench.failed', {failed}::text, true);
END
"""
_COUNTED: LiteralString = """
SELECT (SELECT count(*) FROM {stage}) - (SELECT count(*) FROM {target}),
  nullif(pg_catalog.current_setting('privbench.failed', true), '')::bigint[]
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
        with database_errors("computing columns"):
            # To compile such statements takes longer than to run them, and rows keep their order.
            for setting in ("jit", "synchronize_seqscans"):
                run(self._connection, assignment(setting, "off"))
            for level in sorted({item.level for item in self._columns}):
                self._fill_level(level)

    def _fill_level(self, level: int) -> None:
        """Compute the columns of a level, which do not depend on each other."""
        columns = [item for item in self._columns if item.level == level]
        indexes = self._index({place for item in columns for place in item.compared})
        filled = {}
        for name in dict.fromkeys(TableName(*item.table) for item in columns):
            own = [item for item in self._columns if TableName(*item.table) == name]
            some = [item for item in own if item.level == level]
            filled[name] = self._fill(self.tables[name], some, later=own[-1].level > level)
        for index in indexes:
            run(self._connection, build("DROP INDEX {}", index))
        for name, made in filled.items():
            run(self._connection, build("DROP TABLE {}", name))
            self._rename(made, name)

    def _fill(self, table: Table, columns: Sequence[Computation], *, later: bool) -> TableName:
        """Copy a staging table, with some computed columns; returns where the rows are.

        That is the table itself, or a staging table again if other columns are computed later.
        """
        target = self._stage(table.name) if later else self._aside[table.name]
        names = [column.name for column in table.columns if not column.generated]
        texts = {item.column: sql.SQL(f"({item.text}\n)") for item in columns}
        parts: dict[str, Part] = {
            "stage": table.name,
            "target": target,
            "columns": names,
            "row": ROW,
            "made": _MADE,
            "failed": _FAILED,
        }
        together = build(
            _TOGETHER,
            values=[sql.Identifier(_MADE if name in texts else ROW, name) for name in names],
            computed=[build("{} AS {}", text, name) for name, text in texts.items()],
            **parts,
        )
        if self._limited(together):
            return target
        each = [
            build(
                _EACH,
                column=name,
                text=text,
                needed=sql.Literal(table.column(name).not_null),
                place=place,
                **parts,
            )
            for place, (name, text) in enumerate(texts.items(), start=1)
        ]
        parts |= {"each": sql.Composed(each), "refused": sql.SQL(staging.REFUSED)}
        body = build(_SINGLY, number=len(columns), **parts).as_string(self._connection)
        singly = self._limited(build("DO {}", sql.Literal(body)))
        if not singly:
            staging.insert(self._connection, stage=table.name, columns=names, table=target)
        ((self.lost[table.key], failed),) = run(
            self._connection, build(_COUNTED, **parts)
        ).fetchall()
        self._tell(columns, failed if singly else None)
        return target

    def _tell(self, columns: Sequence[Computation], failed: Sequence[int] | None) -> None:
        late = " in the time that all of them may take together" if self._left <= 0 else ""
        for place, item in enumerate(columns):
            if failed is None or failed[place]:
                where = f"{failed[place]:,} rows" if failed else f"all rows{late}"
                self.told.append(
                    f"{TableName(*item.table)}.{item.column} is not computed for {where}, "
                    "which have NULL, its default or a constant there"
                )

    def _index(self, places: Collection[Place]) -> list[TableName]:
        """Index columns by which rows are looked up, as far as their types allow it."""
        made = []
        for table, column in sorted(places):
            name = TableName(*table)
            index = self._free(name)
            if self._limited(build("CREATE INDEX {} ON {} ({})", index.name, name, column)):
                made.append(index)
                # Without statistics the server would read whole tables for each row.
                self._limited(build("ANALYZE {} ({})", name, column))
        return made

    def _limited(self, statement: sql.Composed) -> bool:
        """Run a statement within the time that is left; whether it succeeded."""
        begun, patience = time.monotonic(), self._left
        if patience <= 0:
            return False
        limit = str(1 + int(patience * 1000))  # it never ends before the time is over
        try:
            with self._connection.transaction():
                run(self._connection, assignment("statement_timeout", limit))
                run(self._connection, statement)
                run(self._connection, assignment("statement_timeout", "0"))
            return True
        except psycopg.Error as error:
            stopped = isinstance(error, errors.QueryCanceled)
            if self._connection.closed or (stopped and time.monotonic() - begun < patience):
                raise
            return False
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
