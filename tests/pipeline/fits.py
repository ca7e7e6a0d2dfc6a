"""Whole fits, stage by stage, and the check of every claim on neighbours of the rows they read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privbench.config import Config
from privbench.pipeline import Model
from privbench.pipeline.fit import STAGES, begin, finish
from privbench.pipeline.progress import Reporter
from privbench.privacy import Query
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.neighbour import all_units, remove_unit, telling_units, worst_hub
from privbench.privacy.session import Step
from privbench.privacy.stability import StabilityReport, check


@dataclass
class Fitted:
    """A fit and the rows that it was made on, as they were before it."""

    before: PrivateDatabase
    after: PrivateDatabase
    trace: list[Step]
    model: Model

    @property
    def queries(self) -> list[Query]:
        return [step.query for step in self.trace]


def fit(
    source: str,
    config: Config,
    rows: PrivateDatabase | None = None,
    since: Path | None = None,
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


def check_claims(
    fitted: Fitted, queries: list[Query] | None = None, *, ordinary: int = 4, gone: int = 1
) -> StabilityReport:
    """Check claims without the heaviest units, hubs, the most referring, and others at random.

    And again on rows without as many of the worst hubs, so that ⊥ edges are on both sides.
    """
    asked, rows = queries or fitted.queries, fitted.before
    report = StabilityReport(len(asked), worst=[0.0] * len(asked))
    for number in (0, gone) if gone else (0,):
        for _ in range(number):
            rows = remove_unit(rows, *worst_hub(rows))
        everyone = list(all_units(rows))
        picked = np.random.default_rng(number).permutation(len(everyone))[:ordinary]
        others = [everyone[place] for place in picked]
        units = list(dict.fromkeys([*telling_units(rows, 1), *others]))
        report.add(check(asked, rows, recodings=fitted.after.recodings, units=units))
    return report
