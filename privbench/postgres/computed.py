"""Fill computed columns during a load, from the other rows of the clone, with set-based statements.

A table with computed columns is renamed, and a staging table takes its name and the copied rows. So
the expressions run unchanged, as they were judged, whatever they read of each other's tables. Once
all rows are there, each level of dependence is one INSERT … SELECT per table, from its staging
table to the next one, or at last to the table itself: no row is ever updated, which would double
the table on disk. This happens before CHECKs, keys and indexes, in the load's transaction.

Expressions may be a stranger's. They are judged before (`privbench.pgsql.computed`), run as the
load's role with its settings, and have limited time together. Where one fails for some row, its
column keeps a stand-in there (NULL, its default or a constant), which is counted and reported. So
an expression never stops a load.
"""

import time
from collections.abc import Iterable, Sequence
from itertools import count
from typing import LiteralString

import psycopg
from psycopg import errors, sql

from privbench.pgsql.computed import ROW, Computation, TableColumn
from privbench.postgres import copy_in
from privbench.postgres.failures import database_errors
from privbench.postgres.load import Loader
from privbench.postgres.reading import assignment
from privbench.postgres.statement import StatementPart, build, run
from privbench.schema import Table, TableName

#: Seconds that all expressions may take, and further ones for each row of the clone.
PATIENCE, PER_ROW = 60.0, 1e-4
_MADE = "privbench made"
_TOGETHER: LiteralString = """
INSERT INTO {target} ({columns}) OVERRIDING SYSTEM VALUE
SELECT {values} FROM {stage} AS {row} {groups}, LATERAL (SELECT {computed}) AS {made}
"""
_COUNTED: LiteralString = """
SELECT pg_catalog.current_setting('privbench.failed', true),
  (SELECT count(*) FROM {stage}) - (SELECT count(*) FROM {table})
"""


class Computing:
    """The computed columns of one load: begun before its rows are copied, finished afterwards.

    The loader's ``lost`` gets a line for each column that has stand-ins, with the number of rows.

    Attributes:
        tables: The tables that have computed columns, by name.
        lost: The rows of each table that it does not take, as their generated columns fail.
    """

    def __init__(self, loader: Loader, columns: Sequence[Computation]) -> None:
        self._connection, self._columns, self._told = loader.connection, columns, loader.lost
        self.tables = {(name := TableName(*c.table)): loader.table(name) for c in columns}
        self._numbers, self._left, self._indexes = count(), 0.0, dict[TableColumn, TableName]()
        self._aside = {name: self._free(name) for name in self.tables}
        self.lost: dict[str, int] = {}

    def begin(self) -> None:
        """Rename the tables and create staging tables under their names."""
        with database_errors("making room for computed columns"):
            for name, aside in self._aside.items():
                self._rename(name, aside)
                self._stage(name, name)

    def finish(self, rows: int) -> None:
        """Compute the columns and restore the tables, for a clone with ``rows`` rows."""
        self._left = PATIENCE + rows * PER_ROW
        with database_errors("computing columns"):
            # Groups are sorted: to hash them takes twice as long, and splits what memory lacks.
            for setting in ("enable_hashagg", "enable_hashjoin"):
                run(self._connection, assignment(setting, "off"))
            for level in sorted({item.level for item in self._columns}):
                self._fill_level(level)

    def _fill_level(self, level: int) -> None:
        """Compute the columns of a level, which do not depend on each other."""
        columns = [item for item in self._columns if item.level == level]
        filled = {}
        for name in dict.fromkeys(TableName(*item.table) for item in columns):
            own = [item for item in self._columns if TableName(*item.table) == name]
            some = [item for item in own if item.level == level]
            filled[name] = self._stage(name) if own[-1].level > level else self._aside[name]
            self._fill(self.tables[name], some, name, filled[name])
        for index in self._indexes.values():
            run(self._connection, build("DROP INDEX {}", index))
        self._indexes.clear()
        for name, computed in filled.items():
            run(self._connection, build("DROP TABLE {}", name))
            self._rename(computed, name)

    def _fill(
        self, table: Table, columns: Sequence[Computation], stage: TableName, target: TableName
    ) -> None:
        """Copy a staging table of a table, with some computed columns.

        If an expression fails, it is found by halves, and its column computed row by row.
        """
        names = [column.name for column in table.columns if not column.generated]
        for grouped in sorted({any(item.groups for item in columns), False}, reverse=True):
            groups = {item.column: item.groups if grouped else () for item in columns}
            self._index(item for item in columns if not groups[item.column])
            together = build(
                _TOGETHER,
                target=target,
                columns=names,
                values=[sql.Identifier(_MADE if name in groups else ROW, name) for name in names],
                stage=stage,
                row=ROW,
                groups=sql.SQL(" ".join(item[0] for item in groups.values() if item)),
                computed=[
                    build(
                        "({}\n) AS {}", sql.SQL((item.text, *groups[item.column])[-1]), item.column
                    )
                    for item in columns
                ],
                made=_MADE,
            )
            if self._limited(together):
                return
        if half := len(columns) // 2:
            between = self._stage(table.name)
            self._fill(table, columns[:half], stage, between)
            self._fill(table, columns[half:], between, target)
            run(self._connection, build("DROP TABLE {}", between))
            return
        parts: dict[str, StatementPart] = {"stage": stage, "columns": names, "table": target}
        singly = self._limited(copy_in.singly(self._connection, together, **parts))
        if not singly:
            copy_in.insert(self._connection, **parts)
        ((failed, self.lost[table.key]),) = run(self._connection, build(_COUNTED, **parts))
        late = " in the time that all of them may take together" if self._left <= 0 else ""
        self._told.append(
            f"{table.key}.{columns[0].column} is not computed for "
            f"{f'{failed} rows' if singly else f'all rows{late}'}, which have NULL, its default or "
            "a constant there"
        )

    def _index(self, columns: Iterable[Computation]) -> None:
        """Index columns by which rows are looked up, as far as their types allow it."""
        places = {place for item in columns for place in item.compared}
        for table, column in sorted(places - self._indexes.keys()):
            name = TableName(*table)
            index = self._free(name)
            if self._limited(build("CREATE INDEX {} ON {} ({})", index.name, name, column)):
                self._indexes[table, column] = index
                # Without statistics the server would read whole tables for each row.
                self._limited(build("ANALYZE {} ({})", name, column))

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
        template = "CREATE UNLOGGED TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING IDENTITY)"
        run(self._connection, build(template, name, aside))
        for column in self.tables[of].columns:
            if column.generated:
                run(self._connection, build("ALTER TABLE {} DROP COLUMN {}", name, column.name))
        return name

    def _rename(self, name: TableName, new: TableName) -> None:
        run(self._connection, build("ALTER TABLE {} RENAME TO {}", name, new.name))

    def _free(self, beside: TableName) -> TableName:
        """A name that nothing has, in the schema of a table."""
        return TableName(beside.schema, f"privbench computed {next(self._numbers)}")
