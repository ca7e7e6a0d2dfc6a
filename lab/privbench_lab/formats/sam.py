"""The JSON format of SAM: conjunctions over one table as parallel lists.

It follows the public repository of "SAM: Database Generation from Query Workloads with Supervised
Autoregressive Models" (SIGMOD 2022): its files ``queries/census_test.txt`` and ``dmv_test.txt``,
and the loader that reads them. A file is one object. Each item of its ``query_list`` holds three
lists (columns, operators, and values, which are strings); ``card_list`` holds the answers as
strings. Columns are given by name or, for census, by number. The original format states neither
tables, nor names of numbered columns, nor types; this module writes table and column names under
the additional keys ``table`` and ``columns``, which such loaders ignore.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, FiniteFloat
from sqlglot.dialects import Postgres

from privbench.display import json_visible, quote
from privbench.errors import UsageError
from privbench.files import write_text
from privbench.schema import TableName
from privbench.workload.formats.base import WorkloadFormat, beyond, read_json, read_text
from privbench.workload.query import Workload, WorkloadQuery
from privbench_lab.formats.conjunctive import (
    NUMBER,
    Condition,
    Conjunction,
    Value,
    conjunction,
)
from privbench_lab.formats.kinds import KINDS

_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?\Z")
_TAIL = re.compile(r"([_-](train|test|val|\d+))+\Z")


_Operator = Literal["=", "<", ">", "<=", ">="]


class _File(BaseModel):
    """The content of a file."""

    query_list: list[tuple[list[str | int], list[_Operator], list[Any]]]
    card_list: list[FiniteFloat | None] | None = None
    table: str | None = None
    columns: tuple[str, ...] = ()
    confidential: bool = False


def _detects(path: Path) -> bool:
    """Whether the file is a JSON object with a ``query_list``."""
    return path.is_file() and '"query_list"' in read_text(path)[:10_000]


def _read(path: Path, known: str | None = None, names: tuple[str, ...] = ()) -> Workload:
    """Read the queries; ids are q1, q2, ….

    The names of the table (``known``) and of its columns (``names``) may be given.
    """
    data = read_json(path, _File)
    name = TableName.parse(known or data.table or _TAIL.sub("", path.stem))
    parts = (name.name,) if name.schema == "public" else (name.schema, name.name)
    written = ".".join(_quoted(part) for part in parts)
    cards = data.card_list or [None] * len(data.query_list)
    whole = all(len(a) == len(b) == len(c) for a, b, c in data.query_list)
    if not whole or len(cards) != len(data.query_list):
        raise UsageError(f"{path} has lists of different lengths.")
    items = [
        [
            (_named(column, names or data.columns, path), operator, str(value))
            for column, operator, value in zip(*item, strict=True)
        ]
        for item in data.query_list
    ]
    found: dict[str, set[str]] = defaultdict(set)
    for column, _, value in chain.from_iterable(items):
        found[column].add(value)
    kinds = {column: _kind(values) for column, values in found.items()}
    queries = []
    for number, (item, card) in enumerate(zip(items, cards, strict=True), 1):
        conditions = tuple(
            Condition(
                _quoted(c),
                f" {o} ",
                Value(v, quoted=kinds[c] != "number", by_code=kinds[c] == "string" and o != "="),
            )
            for c, o, v in item
        )
        text = Conjunction(((written, ""),), (), conditions).sql
        queries.append(WorkloadQuery(f"q{number}", text, None if card is None else int(card)))
    return Workload(path.stem, tuple(queries), data.confidential)


def _write(workload: Workload, path: Path) -> None:
    """Write the queries, with columns given by name."""
    parts: dict[str, Conjunction] = {}
    for query in workload:
        parts[query.id] = conjunction(query, "sam", quotable=True)
        if fault := _fault(parts[query.id]):
            raise beyond(query, "sam", fault)
    tables = {item.tables[0][0]: name for name, item in parts.items()}
    if len(tables) > 1:
        names = " and ".join(list(tables.values())[:2])
        raise UsageError(f"queries {names} are on different tables: the format sam holds one.")
    data: dict[str, Any] = {
        "query_list": [
            [
                [c.column.rpartition(".")[2] for c in item.conditions],
                [c.operator for c in item.conditions],
                [c.value.text for c in item.conditions],
            ]
            for item in parts.values()
        ]
    }
    if any(query.card is not None for query in workload):
        data["card_list"] = [_card(query) for query in workload]
    if tables:
        data["table"] = next(iter(tables))
    if workload.confidential:
        data["confidential"] = True
    write_text(path, json_visible(json.dumps(data, ensure_ascii=False)) + "\n")


def _named(column: str | int, columns: tuple[str, ...], path: Path) -> str:
    if isinstance(column, str):
        return column
    if 0 <= column < len(columns):
        return columns[column]
    raise UsageError(
        f"{path} numbers its columns, and column {column} has no name.",
        remedy="Give the names in the order of the numbers with --columns.",
    )


def _quoted(name: str) -> str:
    """The name as SQL: in quotes where PostgreSQL needs them, key words included."""
    return f'"{name}"' if name.upper() in Postgres.Tokenizer.KEYWORDS else quote(name)


def _kind(values: set[str]) -> str:
    """The type of a column's values, found from all of them."""
    if all(NUMBER.match(value) for value in values):
        return "number"
    return "time" if all(_TIME.match(value) for value in values) else "string"


def _fault(parts: Conjunction) -> str | None:
    columns = [item.column.rpartition(".")[2] for item in parts.conditions]
    if len(parts.tables) > 1 or parts.joins:
        return "it joins"
    if not columns:
        return "it has no predicate"
    if len(set(columns)) < len(columns):
        return "it has several bounds on one column"
    for item in parts.conditions:
        if item.operator not in get_args(_Operator):
            return f"it has the operator {item.operator}"
        plain = item.value.quoted and not item.value.cast and not _TIME.match(item.value.text)
        if plain and item.operator != "=" and not item.value.by_code:
            return "it orders strings by the database's collation"
    return None


def _card(query: WorkloadQuery) -> str:
    if query.card is None:
        raise UsageError(
            f"query {query.id} states no answer and others do, which the format sam cannot hold."
        )
    return str(query.card)


def sam(table: str | None = None, columns: tuple[str, ...] = ()) -> WorkloadFormat:
    """The format SAM for a file that does not state its table or its columns.

    ``table`` is the table that is queried; None takes it from the file, or from the file's name.
    ``columns`` are the table's columns, in the order of the file's column numbers.
    """
    return WorkloadFormat(
        "sam", _detects, lambda path: _read(path, table, columns), _write, sam, KINDS
    )


FORMAT = sam()
