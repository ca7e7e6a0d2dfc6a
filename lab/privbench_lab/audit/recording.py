"""Record and replay: every call of a mechanism in a fit on D, and again on neighbours of D.

A recorder takes the place of the session's source of noise, so it sees the input and the draw of
every mechanism, whatever query, learner or stage calls it. On a neighbour the fit is run again with
the recorded draws as results. It then has to make the same measurements in the same order, its
exact values may differ by at most the claimed sensitivity, and its model has to be the same.

Nothing outside this package makes a recorder: `pipeline.fit` takes its noise from the config, which
offers only OpenDP's noise and seeded noise, and no module below this one may import it. All results
are computed from private rows: CONFIDENTIAL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from privbench.arrays import Ints
from privbench.config import Config, CountingConfig, LedgerConfig
from privbench.errors import PrivbenchError
from privbench.pipeline.fit import STAGES, Draft, begin, finish
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.privacy import NoiseSource, Session
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.mechanisms import Mechanism, Method
from privbench.privacy.session import TraceStep
from privbench_lab.neighbours.stability import Statistic

#: Suffix of the name of the noise stream for the public cells of a list.
CELLS = " cells"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a mechanism: its arguments and its result, in grid units.

    ``exact`` holds cells, scores, or counts of labels. ``threshold`` is the least count of a label
    that may be released. ``drawn`` holds noisy cells, an index, or labels with noisy counts.
    """

    mechanism: Mechanism
    exact: Ints | dict[str, int]
    scale: float
    threshold: int | None = None
    drawn: Ints | int | dict[str, int] = 0

    def asks(self, other: Call) -> bool:
        """Whether two calls have equal public arguments; the number of labels is not public."""
        sizes = [None if isinstance(c.exact, dict) else c.exact.shape for c in (self, other)]
        ours = self.mechanism, self.scale, self.threshold, sizes[0]
        return ours == (other.mechanism, other.scale, other.threshold, sizes[1])


class Differs(PrivbenchError):
    """A fit on a neighbour took other measurements, although all releases were the same."""


class Recorder(NoiseSource):
    """A source of noise that keeps every call, by the name of its stream.

    Draws come from ``source``; if ``before`` has the calls of an earlier fit, they come from there.
    """

    def __init__(self, source: NoiseSource, before: Mapping[str, Call] | None = None) -> None:
        self._source, self._before, self.private = source, before, source.private
        self.calls: dict[str, Call] = {}

    def draw(self, method: Method, exact: Any, stream: str) -> Any:
        """See `NoiseSource`."""
        call = Call(method.mechanism, copy(exact), method.scale, method.threshold)
        name = stream
        while name in self.calls:
            name += " again"  # A second draw for an event; no event pays for it.
        if self._before is None:
            found = self._source.draw(method, exact, stream)
        else:
            old = self._before.get(name)
            if old is None or not old.asks(call):
                raise Differs(
                    "the fit called a mechanism with other arguments, given the same draws."
                )
            found = old.drawn
        self.calls[name] = replace(call, drawn=found)
        return copy(found)


@dataclass(frozen=True)
class Recording:
    """A recorded fit: its steps in order, and the calls of its mechanisms by stream.

    The session is closed; it is kept for the public facts that are needed to price events.
    """

    steps: tuple[TraceStep, ...]
    calls: Mapping[str, Call]
    session: Session
    model: Model

    def statistic(self, place: int) -> Statistic:
        """The exact statistic of a step, in the form that the stability harness compares.

        `Differs` is raised if no mechanism was called for the step.
        """
        call, cells = self.calls.get(str(place)), self.calls.get(f"{place}{CELLS}")
        if call is None:
            raise Differs(f"event {place} has no call of a mechanism.")
        if isinstance(call.exact, dict):
            if cells is None or isinstance(cells.exact, dict):
                raise Differs(f"event {place} has no call for its public cells.")
            return cells.exact, call.exact
        return call.exact


@dataclass(frozen=True)
class Bench:
    """Runs the same fit again and again, on rows that were read once."""

    source: str  # DSN of the scratch database
    config: Config  # the config of the fits
    noise: NoiseSource  # source of the noise that `record` keeps
    read: Draft  # a fit that stopped after it had read the rows
    rows: PrivateDatabase  # the rows that it read

    def record(self) -> Recording:
        """Fit the rows with noise, and keep every call."""
        return self._run(self.rows, Recorder(self.noise))

    def replay(self, recording: Recording, rows: PrivateDatabase) -> Recording:
        """Fit a neighbour; every call of a mechanism returns the result that was recorded for it.

        `Differs` is raised if the fit's calls differ from the recorded ones.
        """
        return self._run(rows, Recorder(self.noise, recording.calls))

    def _run(self, rows: PrivateDatabase, noise: Recorder) -> Recording:
        draft = begin(self.source, self.config, Reporter(), catalog=self.read.catalog)
        stages = dict(STAGES)
        stages.pop("open the ledger")(draft)
        stages.pop("extract")
        # Paths of documents were released when the rows were read.
        draft.plan = self.read.plan
        draft.rows, draft.public = rows.copy(), self.read.public
        session = Session(draft.rows, draft.accountant, draft.release, noise)
        draft.session = session
        for stage in stages.values():
            stage(draft)
        model = finish(draft)
        session.close()
        return Recording(tuple(session.trace), noise.calls, session, model)


@contextmanager
def bench(
    source: str, config: Config, reporter: Reporter, noise: NoiseSource | None = None
) -> Iterator[Bench]:
    """Read the rows of a scratch database, for fits into a ledger that is thrown away.

    The config's own ledger is left alone; noise is OpenDP's by default.
    """
    with apart_from(config) as (apart, _):
        draft = begin(source, apart, reporter)
        for name, stage in STAGES[:2]:
            with reporter.stage(name):
                stage(draft)
        draft.session.close()
        yield Bench(source, apart, noise or NoiseSource(), draft, draft.rows)


@contextmanager
def apart_from(config: Config) -> Iterator[tuple[Config, Path]]:
    """The config with the audit's own ledger and identity, and a temporary folder.

    So the ledger cannot be mistaken for the source's. A seed is removed: it would make every fit
    draw the same noise, on which no audit may rest. Nothing of the schema is released, so the
    review of the DDL is not required.
    """
    database = config.database.model_copy(update={"identity": "privbench audit"})
    privacy = config.privacy.model_copy(update={"seed": None, "ddl_reviewed": None})
    here = CountingConfig()  # neighbours are counted here: workers serve only the source's fit
    with TemporaryDirectory(prefix="privbench-audit-") as folder:
        ledger = LedgerConfig(path=str(Path(folder, "ledger")))
        changes = {"database": database, "privacy": privacy, "ledger": ledger, "counting": here}
        yield config.model_copy(update=changes), Path(folder)


def same_model(first: Model, second: Model) -> list[str]:
    """The parts that differ between two models made from the same draws."""
    plain = ("schema", "promise", "config", "tables", "synthesizer", "state", "events", "ddl")
    found = [name for name in plain if getattr(first, name) != getattr(second, name)]
    for name in sorted(first.arrays.keys() | second.arrays.keys()):
        one, other = (model.arrays.get(name, np.zeros(0)) for model in (first, second))
        if one.dtype != other.dtype or not np.array_equal(one, other, equal_nan=True):
            found.append(f"array {name}")
    return found
