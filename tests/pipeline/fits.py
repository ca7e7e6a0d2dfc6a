"""Whole fits, stage by stage."""

from dataclasses import dataclass
from pathlib import Path

from privbench.config import Config
from privbench.pipeline import Model
from privbench.pipeline.fit import STAGES, begin, finish
from privbench.pipeline.progress import Reporter
from privbench.privacy import Query
from privbench.privacy.data import PrivateDatabase
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
