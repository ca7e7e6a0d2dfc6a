"""Record and replay: every call of a mechanism in a fit on D, and again on neighbours of D.

A recorder stands where the session's noise comes from, so it sees what every mechanism was given
and what it drew, whatever query, learner or stage asked for it. On a neighbour the fit is run again
and gets the recorded draws as its results: it then has to ask the same questions in the same order,
its exact values may differ by what was claimed, and its model has to be the same.

Nothing outside this package makes a recorder: `pipeline.fit` takes its noise from the config, which
knows OpenDP's and a seed, and no module below this one may import it. All results are computed from
private rows: CONFIDENTIAL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from privbench.config import Config, LedgerConfig
from privbench.errors import PrivbenchError
from privbench.pipeline.extract import Extract
from privbench.pipeline.fit import STAGES, Draft, begin, finish
from privbench.pipeline.model import Model
from privbench.pipeline.progress import Reporter
from privbench.privacy import NoiseSource, OpenDPNoise, Session
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.mechanisms import Integers, Mechanism, VectorMechanism
from privbench.privacy.selection import Selection
from privbench.privacy.session import Step
from privbench.privacy.stability import Statistic
from privbench.privacy.thresholds import Threshold

#: What a session calls the stream of the public cells of a list.
CELLS = " cells"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a mechanism.

    Attributes:
        mechanism: Which one.
        exact: What it was given: cells, scores, or counts of labels.
        scale: Scale of the noise that it was told to draw, in grid units.
        drawn: What it gave: noisy cells, an index, or labels with noisy counts.
        threshold: Of a list, the least count that it may give.
    """

    mechanism: Mechanism
    exact: Integers | dict[str, int]
    scale: float
    drawn: Integers | int | dict[str, int]
    threshold: int | None = None


class Differs(PrivbenchError):
    """A fit on a neighbour asked for something else, though all that was released is the same."""


class Recorder:
    """A source of noise that keeps every call; what is drawn is another source's.

    Attributes:
        calls: Every call by its stream.
    """

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self.calls: dict[str, Call] = {}

    @property
    def private(self) -> bool:
        """Whether what is drawn is differentially private."""
        return self._source.private

    def vector(
        self, mechanism: VectorMechanism, values: Integers, scale: float, stream: str
    ) -> Integers:
        """The values plus noise."""
        drawn = self._source.vector(mechanism, values, scale, stream)
        self.calls[stream] = Call(mechanism, values.copy(), scale, drawn)
        return drawn

    def index(self, mechanism: Selection, scores: Integers, scale: float, stream: str) -> int:
        """The index of a noisy maximum."""
        drawn = self._source.index(mechanism, scores, scale, stream)
        self.calls[stream] = Call(mechanism, scores.copy(), scale, drawn)
        return drawn

    def labels(
        self,
        mechanism: Threshold,
        counts: Mapping[str, int],
        scale: float,
        threshold: int,
        stream: str,
    ) -> dict[str, int]:
        """The labels whose noisy count reaches the threshold."""
        drawn = self._source.labels(mechanism, counts, scale, threshold, stream)
        self.calls[stream] = Call(mechanism, dict(counts), scale, drawn, threshold)
        return drawn


class _Replayed:
    """A source of noise that draws nothing: it gives what was drawn before."""

    def __init__(self, calls: Mapping[str, Call], private: bool) -> None:
        self._calls, self.private = calls, private

    def _drawn(self, mechanism: Mechanism, scale: float, stream: str) -> Call:
        call = self._calls.get(stream)
        if call is None or call.mechanism is not mechanism or call.scale != scale:
            raise Differs("the fit on a neighbour asked a mechanism for something else.")
        return call

    def vector(
        self, mechanism: VectorMechanism, values: Integers, scale: float, stream: str
    ) -> Integers:
        """What was drawn, if the cells are as many."""
        found = self._drawn(mechanism, scale, stream).drawn
        if not isinstance(found, np.ndarray) or found.shape != values.shape:
            raise Differs("the fit on a neighbour counted other cells.")
        return found.copy()

    def index(self, mechanism: Selection, scores: Integers, scale: float, stream: str) -> int:
        """What was drawn, if it is a choice among these."""
        found = self._drawn(mechanism, scale, stream)
        if not isinstance(found.drawn, int) or len(found.exact) != len(scores):
            raise Differs("the fit on a neighbour chose among others.")
        return found.drawn

    def labels(
        self,
        mechanism: Threshold,
        counts: Mapping[str, int],
        scale: float,
        threshold: int,
        stream: str,
    ) -> dict[str, int]:
        """What was drawn, if the threshold is the same."""
        found = self._drawn(mechanism, scale, stream)
        if not isinstance(found.drawn, dict) or found.threshold != threshold:
            raise Differs("the fit on a neighbour took another threshold for a list.")
        return dict(found.drawn)


@dataclass(frozen=True)
class Recording:
    """A fit whose mechanisms were listened to.

    Attributes:
        steps: What was asked, in order.
        calls: Calls of mechanisms by stream.
        session: The session, closed; its public facts price the events.
        model: What came of it.
    """

    steps: tuple[Step, ...]
    calls: Mapping[str, Call]
    session: Session
    model: Model

    def statistic(self, place: int) -> Statistic:
        """The exact statistic of a step, as the stability harness compares it.

        Raises:
            Differs: No mechanism was called for it.
        """
        call, cells = self.calls.get(str(place)), self.calls.get(f"{place}{CELLS}")
        if call is None:
            raise Differs(f"event {place} has no call of a mechanism.")
        if isinstance(call.exact, dict):
            if cells is None or isinstance(cells.exact, dict):
                raise Differs(f"event {place} has no call for its public cells.")
            return cells.exact, call.exact
        return call.exact


@dataclass
class Bench:
    """Where a fit is run again and again: rows that were read once, and a ledger that goes.

    Attributes:
        database: The rows as they were read.
    """

    database: PrivateDatabase
    _source: str
    _config: Config
    _first: Draft
    _noise: NoiseSource = field(default_factory=OpenDPNoise)

    @property
    def delta_conversion(self) -> float:
        """δ that the conversion from zCDP takes; 0 in pure accounting."""
        return self._first.accountant.delta_conversion

    def record(self) -> Recording:
        """Fit the rows with noise, and keep every call."""
        recorder = Recorder(self._noise)
        return self._run(self.database, recorder)

    def replay(self, recording: Recording, neighbour: PrivateDatabase) -> Recording:
        """Fit a neighbour with the recorded draws as results.

        Raises:
            Differs: It asked for something else.
        """
        again = Recorder(_Replayed(recording.calls, recording.session.private))
        return self._run(neighbour, again)

    def _run(self, rows: PrivateDatabase, noise: Recorder) -> Recording:
        draft = begin(self._source, self._config, Reporter())
        data = self._first.data
        assert data is not None
        draft.ddl, draft.data = self._first.ddl, Extract(rows.copy(), data.public)
        stages = dict(STAGES)
        for name in [name for name, _ in STAGES if name != "extract"]:
            if name != "open the ledger" and draft.session is None:
                assert draft.release is not None
                draft.session = Session(draft.data.database, draft.accountant, draft.release, noise)
            stages[name](draft)
        assert draft.session is not None
        model = finish(draft)
        draft.session.close()
        return Recording(tuple(draft.session.trace), noise.calls, draft.session, model)


@contextmanager
def bench(
    source: str, config: Config, reporter: Reporter, noise: NoiseSource | None = None
) -> Iterator[Bench]:
    """Read the rows of a scratch database, for fits into a ledger that is thrown away.

    Args:
        source: DSN of the scratch database.
        config: The config; its ledger is left alone.
        reporter: Told of the reading.
        noise: Where noise comes from; OpenDP by default.

    Raises:
        PrivbenchError: Whatever `fit` raises before rows are counted.
    """
    with TemporaryDirectory(prefix="privbench-audit-") as folder:
        apart = apart_from(config, Path(folder))
        draft = begin(source, apart, reporter)
        for name, stage in STAGES[:2]:
            with reporter.stage(name):
                stage(draft)
        assert draft.data is not None
        assert draft.session is not None
        rows = draft.data.database.copy()
        draft.session.close()
        yield Bench(rows, source, apart, draft, noise or OpenDPNoise())


def apart_from(config: Config, folder: Path) -> Config:
    """The config with a scratch ledger, without a cap and without a seed.

    A seed would make every fit draw the same noise, which no audit may stand on.
    """
    privacy = config.privacy.model_copy(update={"seed": None})
    ledger = LedgerConfig(path=str(folder / "ledger"))
    return config.model_copy(update={"ledger": ledger, "privacy": privacy})


def same_model(first: Model, second: Model) -> list[str]:
    """Parts in which two models differ that were made from the same released results."""
    found = [
        name
        for name in ("schema", "promise", "config", "tables", "synthesizer", "state", "events")
        if getattr(first, name) != getattr(second, name)
    ]
    if first.arrays.keys() != second.arrays.keys():
        found.append("names of arrays")
    found += [
        f"array {name}"
        for name in sorted(first.arrays.keys() & second.arrays.keys())
        if not _equal(first.arrays[name], second.arrays[name])
    ]
    public = first.public.keys() | second.public.keys()
    found += [f"rows of {n}" for n in sorted(public) if first.public.get(n) != second.public.get(n)]
    return found


def _equal(one: np.ndarray, other: np.ndarray) -> bool:  # type: ignore[type-arg]
    kinds = one.dtype == other.dtype and one.shape == other.shape
    return kinds and one.tobytes() == other.tobytes()
