"""Aggregate queries on source and clone: relative errors of what they say of each group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import TypeAlias

from privbench.errors import ConfigError
from privbench.postgres.connect import Connection

#: What is added to a figure of the source before it divides, as in PrivPetal's evaluation, so that
#: figures can be compared. A figure of zero in the source is off by a million where the clone has
#: 1, with half of it by two million; figures that are not zero do not see the difference.
_LEAST = 1e-6
_HEAD = re.compile(r"^-- (\w+): (\d+)$", re.MULTILINE)
#: The figures of every group of an answer.
Answer: TypeAlias = dict[tuple[str, ...], list[float]]


@dataclass(frozen=True, slots=True)
class AggregateQuery:
    """A query whose first columns name a group, and whose others are figures of it."""

    name: str
    groups: int  # columns that name the group
    sql: str

    def answer(self, connection: Connection) -> Answer:
        """What a database says; NULL counts as zero."""
        rows = connection.execute(self.sql.encode()).fetchall()
        return {
            tuple(str(name).strip() for name in row[: self.groups]): [
                float(figure or 0) for figure in row[self.groups :]
            ]
            for row in rows
        }


def read_aggregates(path: Path) -> list[AggregateQuery]:
    """The queries of a file; before each stands a line ``-- NAME: COLUMNS THAT NAME A GROUP``.

    A ConfigError says that the file cannot be read or has no query.
    """
    try:
        _, *parts = _HEAD.split(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the queries {path} cannot be read.") from error
    if not parts:
        raise ConfigError(f"{path}: no query has a line '-- NAME: COLUMNS' before it.")
    columns = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return [AggregateQuery(name, int(number), text.strip()) for name, number, text in columns]


def errors(source: Answer, clone: Answer) -> Iterator[float]:
    """The relative errors |a − b| / (|a| + 10⁻⁶) of the figures of the source's groups.

    Those of a group that the clone lacks are 1. Groups that only the clone has do not count.
    """
    for group, figures in source.items():
        others = clone.get(group)
        for place, figure in enumerate(figures):
            off = 1.0 if others is None else abs(figure - others[place]) / (abs(figure) + _LEAST)
            yield off


def compare_answers(
    queries: list[AggregateQuery], source: Connection, clone: Connection
) -> dict[str, float]:
    """The mean error of each query over groups and figures, and mean and median of queries."""
    means = {}
    for query in queries:
        if off := list(errors(query.answer(source), query.answer(clone))):
            means[f"answers.{query.name}"] = mean(off)
    if not means:
        return {}
    values = list(means.values())
    return {**means, "answers.mean": mean(values), "answers.p50": median(values)}
