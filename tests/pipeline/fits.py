"""Whole fits, stage by stage."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privbench.config import Config
from privbench.pipeline import Model
from privbench.pipeline.extract import extract
from privbench.pipeline.fit import STAGES, begin, finish
from privbench.pipeline.prepare import prepare
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import read_catalog
from privbench.postgres.snapshot import Snapshot
from privbench.privacy import Query
from privbench.privacy.data import Attribute, Cells, Labels, PrivateDatabase, Words
from privbench.privacy.session import TraceStep


@dataclass
class Fitted:
    """A fit and the rows that it was made on, as they were before it."""

    before: PrivateDatabase
    after: PrivateDatabase
    trace: list[TraceStep]
    model: Model

    @property
    def queries(self) -> list[Query]:
        return [step.query for step in self.trace]


def private_rows(source: str, config: Config) -> PrivateDatabase:
    """The private rows of a source, as a fit reads them."""
    with Snapshot(source) as snapshot:
        schema = read_catalog(snapshot.connection, config).schema
        return extract(snapshot, prepare(schema, config), Reporter())[0]


def contents(attribute: Attribute) -> list[Any]:
    """What an attribute tells of every row, whatever the order of its labels."""
    if isinstance(attribute, Words):
        ends, firsts = attribute._ends.tolist(), attribute._firsts.tolist()
        return [contents(attribute._words), ends, firsts]
    if isinstance(attribute, Labels):
        labels = [*attribute._labels.to_pylist(), None]
        return [labels[code] for code in attribute._codes]
    codes = attribute._codes if isinstance(attribute, Cells) else np.asarray(attribute._values)
    return [codes.dtype, codes.tolist()]


def fit(
    source: str, config: Config, rows: PrivateDatabase | None = None, since: Path | None = None
) -> Fitted:
    """The stages of a fit, on other rows than the source's if some are given."""
    draft = begin(source, config, Reporter(), since=since)
    for name, stage in STAGES:
        stage(draft)
        if name == "extract":
            if rows is not None:
                draft.session._data = rows
            before = draft.session._data.copy()
    model = finish(draft)
    draft.session.close()
    return Fitted(before, draft.session._data, draft.session.trace, model)
