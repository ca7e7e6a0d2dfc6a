"""Counting queries of one table on frames, answered by an SQLite in memory that may only count.

SQLite orders texts by their bytes, as PostgreSQL's collation "C" does; that collation is removed
from queries, as SQLite does not know its name.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from privbench.errors import ConfigError
from privbench_lab.bench.classifiers import Floats

_COLLATION = re.compile(r'\s+COLLATE\s+"C"', re.IGNORECASE)
_TABLE = re.compile(r"\bFROM\s+(\w+)", re.IGNORECASE)
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}


def read_queries(path: Path, rows: pd.DataFrame) -> list[str]:
    """The queries of a file, whose lines are ``SQL``, ``count||SQL`` or ``SQL||count``.

    The ConfigError names the first line that is no counting query on such rows.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the workload {path} cannot be read.") from error
    found = {
        number: part
        for number, line in enumerate(lines, 1)
        for part in line.split("||")
        if "select" in part.lower()
    }
    with _opened(list(found.values()), rows.iloc[:1]) as connection:
        for number, text in found.items():
            try:
                _one(connection, text)
            except (sqlite3.Error, ValueError) as error:
                raise ConfigError(f"{path}, line {number}: no counting query: {error}.") from error
    return list(found.values())


def counts(queries: list[str], rows: pd.DataFrame) -> Floats:
    """Answers to queries that `read_queries` has read, shape (queries,)."""
    with _opened(queries, rows) as connection:
        return np.array([_one(connection, text) for text in queries])


@contextmanager
def _opened(queries: list[str], rows: pd.DataFrame) -> Iterator[sqlite3.Connection]:
    """A connection to the rows, under every table name that the queries use."""
    # SQLite does not distinguish upper and lower case in names.
    names = {name.lower() for text in queries for name in _TABLE.findall(text)} - {"rows"}
    with closing(sqlite3.connect(":memory:")) as connection:
        rows.to_sql("rows", connection, index=False)
        for name in names:
            connection.execute(f'CREATE VIEW "{name}" AS SELECT * FROM rows')  # noqa: S608 - a word
        connection.set_authorizer(_judge)
        yield connection


def _one(connection: sqlite3.Connection, text: str) -> float:
    found = connection.execute(_COLLATION.sub("", text)).fetchall()
    if len(found) != 1 or len(found[0]) != 1 or not isinstance(found[0][0], int):
        raise ValueError("it does not give one number")
    return float(found[0][0])


def _judge(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Only reading and counting are allowed."""
    counted = action == sqlite3.SQLITE_FUNCTION and second is not None and second.lower() == "count"
    return sqlite3.SQLITE_OK if action in _ALLOWED or counted else sqlite3.SQLITE_DENY
