"""The session, the only way for a value computed from private rows to leave the privacy core.

Every release takes the same steps: price and charge the event; write it to the ledger and wait for
the disk; compute the exact statistic; draw; write the result and wait; return it. A step that fails
leaves the event spent. Questions that do not depend on each other take these steps together
(`Session.ask`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from privbench.arrays import Floats
from privbench.domain import Domain
from privbench.errors import PrivacyRefusal
from privbench.privacy.accountant import Accountant, Guarantee
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.error_masking import shielded
from privbench.privacy.events import Accounting, Event
from privbench.privacy.ledger import Fit, Ledger
from privbench.privacy.ledger_state import Cap, UnitDefinition
from privbench.privacy.mechanisms import VECTOR, Method
from privbench.privacy.noise import NoiseSource, SeededNoise
from privbench.privacy.query import Query
from privbench.privacy.questions import Measurement, Question, Selection
from privbench.privacy.recoding import Recoding
from privbench.privacy.release import NoisyResult, Release
from privbench.privacy.spec import DatabaseSpec


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One release of a session, for the model's header and the stability harness."""

    event: Event
    query: Query
    result: NoisyResult  # the released result: noisy integers in grid units, an index, or a list


class Session:
    """One fit's access to a private database; used by one thread.

    At its start nothing may be charged to the accountant yet, and the release must be open in the
    ledger for the same budget. Noise comes from OpenDP by default.
    """

    def __init__(
        self,
        data: PrivateDatabase,
        accountant: Accountant,
        release: Release,
        noise: NoiseSource | None = None,
    ) -> None:
        source = noise or NoiseSource()
        if source.private != release.private:
            raise PrivacyRefusal("the ledger must state whether a release's noise is seeded.")
        if release.accounting != accountant.accounting or accountant.spent:
            raise PrivacyRefusal("a session needs an unused accountant that fits its release.")
        self._noise = source
        self.read_again(data)
        self._accountant, self._release = accountant, release
        self.trace: list[TraceStep] = []  # every release so far
        self.accounting: Accounting = accountant.accounting
        self.release_id = release.id  # its random name, by which a killed fit is resumed
        self.amount_total = accountant.total  # the whole budget per root table, ε or ρ
        self.delta_total = accountant.threshold_delta  # for threshold releases, per root table

    def read_again(self, data: PrivateDatabase) -> None:
        """Continue with other attributes of the same rows, chosen by earlier releases."""
        if isinstance(self._noise, SeededNoise):
            data.rank_by(self._noise.keys)
        self._data = data

    @property
    def private(self) -> bool:
        """Whether noise is private; False for a seeded fit, which is stamped NOT PRIVATE."""
        return self._noise.private

    @property
    def spec(self) -> DatabaseSpec:
        """The public description of the database; it follows every recoding."""
        return self._data.spec

    @property
    def spent(self) -> float:
        """The largest amount charged to a root table."""
        return self._accountant.spent

    def remaining(self, root: str) -> float:
        """Return the amount left for a root table."""
        return self._accountant.remaining(root)

    def guarantee(self) -> Guarantee:
        """Return what is promised after the events so far, as (ε, δ); lost events are included."""
        return self._release.loss()

    def measure(self, query: Query, amount: float, label: str) -> Floats:
        """Return the statistic plus noise, in counted units: noisy grid units over ``query.unit``.

        The noise is discrete Laplace by the L1 sensitivity, or discrete Gaussian by the L2
        sensitivity. The amount, ε or ρ, is charged to every root table of the query; the label
        states its purpose in the ledger. Errors are those of `ask`.
        """
        (noisy,) = self.measure_all([Measurement(query, amount, label)])
        return noisy

    def measure_all(self, questions: Sequence[Measurement]) -> list[Floats]:
        """Take several measurements as one batch (`ask`), in counted units.

        Errors as in `measure`.
        """
        answered = zip(questions, self.ask(questions), strict=True)
        return [np.asarray(noisy) / float(item.query.unit) for item, noisy in answered]

    def select(self, query: Query, amount: float, label: str) -> int:
        """Return the index of a largest score, by noisy max; charged by the L∞ sensitivity.

        Errors are those of `ask`.
        """
        (index,) = self.ask([Selection(query, amount, label)])
        return index  # type: ignore[return-value]

    def ask(self, questions: Sequence[Question]) -> list[NoisyResult]:
        """Answer questions that do not depend on each other's answers, as one batch.

        The steps are those of one question, taken by the whole batch together: every event is
        charged; all new ones are committed to the ledger together; then all are drawn; all results
        are committed together; only then is any result handed out. That keeps four promises:

        * *Event before noise.* The events are durable before the first draw. A transaction counts
          whole or not at all (`store`), so a kill before its commit returned leaves no event of
          the batch, and nothing was drawn.
        * *Nothing drawn is forgotten.* A kill, or an error, after that leaves every event of the
          batch spent, drawn or not.
        * *Nothing used is drawn twice.* No result leaves before all are durable; they too count
          whole or not at all. If a kill comes before their commit, all events of the batch are
          lost, and asking again makes new events with a new charge; after it, all are replayed.
        * *The privacy loss is that of a sequence.* Scales and amounts are fixed before the first
          draw from what was released before the batch, which is a case of adaptive composition.

        Returns for each question noisy integers in grid units, an index, or a list.

        Raises:
            BudgetExceeded: An amount is not left; nothing of the batch was charged or drawn.
            PrivacyRefusal: A question does not fit its mechanism; nothing was drawn.
            PrivbenchError: A statistic could not be computed; every event stays spent.
        """
        methods = [item.method(self.spec, self.accounting) for item in questions]
        events = [
            item.event(self.spec, how, private=self.private)
            for item, how in zip(questions, methods, strict=True)
        ]
        self._accountant.charge(*events)
        replayed = [self._release.replay(event) for event in events]
        waiting = [place for place, stored in enumerate(replayed) if stored is None]
        first = len(self._release.events)
        fresh = [replace(events[place], id=first + n) for n, place in enumerate(waiting)]
        if fresh:
            self._release.record(fresh)
            drawn = [
                (event, self._draw(questions[place], methods[place], place))
                for place, event in zip(waiting, fresh, strict=True)
            ]
            self._release.store(drawn)
            for place, pair in zip(waiting, drawn, strict=True):
                replayed[place] = pair
        steps = [
            TraceStep(pair[0], item.query, pair[1])
            for item, pair in zip(questions, replayed, strict=True)
            if pair is not None
        ]
        self.trace += steps
        return [step.result for step in steps]

    def _draw(self, question: Question, method: Method, place: int) -> NoisyResult:
        """Compute the exact statistic and draw; ``place`` is the question's place in its batch."""
        stream = str(len(self.trace) + place)
        return shielded(
            lambda: question.draw(method, self._data, self._noise, stream),
            f"the statistic of '{question.label}' could not be computed",
        )

    def recode(self, table: str, attribute: str, recoding: Recoding) -> Domain:
        """Map an attribute to a public domain, each row independently; this costs no budget.

        The recoding is a public map: edges or labels that were released or declared.
        """
        return shielded(
            lambda: self._data.recode(table, attribute, recoding),
            f"the attribute {attribute!r} of {table} could not be recoded",
        )

    @property
    def recodings(self) -> tuple[tuple[str, str, Recoding], ...]:
        """Return every (table, attribute, recoding) so far, in order; public."""
        return self._data.recodings

    def let_go(self, table: str, attribute: str) -> None:
        """Drop an attribute that was read only to release its domain; this costs no budget."""
        self._data.let_go(table, attribute)

    def noise_scale(self, query: Query, amount: float) -> float:
        """Return the standard deviation of a measurement's noise in counted units.

        Public and free.
        """
        return noise_sd(query, self.spec, amount, self.accounting)

    def close(self) -> Guarantee:
        """Close the release in the ledger: what was spent replaces what was reserved."""
        return self._release.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        """Close after success; after a failure stay open, so that the fit can be resumed."""
        if kind is None:
            self.close()
        else:
            self._release.leave()


def noise_sd(query: Query, spec: DatabaseSpec, amount: float, accounting: Accounting) -> float:
    """Return the standard deviation of a measurement's noise, in counted units.

    It reads no rows. ``plan`` uses it, and so do rules that weigh measurements.
    """
    mechanism = VECTOR[accounting]
    scale = mechanism.scale(query.sensitivity(spec), amount)
    return mechanism.sd(scale) / query.unit


def open_session(
    data: PrivateDatabase,
    accountant: Accountant,
    ledger: str | Path | None,
    identity: str,
    *,
    config_hash: str = "",
    public: tuple[str, ...] = (),
    noise: NoiseSource | None = None,
    cap: Cap | None = None,
    resume: str | None = None,
) -> Session:
    """Open a release in the ledger and a session for it; errors as in `Ledger.open_release`.

    ``ledger`` is the directory of all ledgers, by default in the user's state directory. A resumed
    fit must have the same ``config_hash``, of config and schema. ``public`` tables are copied
    verbatim; ``resume`` is the id of a release that was killed.
    """
    source = noise or NoiseSource()
    fit = Fit(config_hash, UnitDefinition.of(data.spec, public), source.private)
    release = Ledger.open(ledger, identity).open_release(fit, accountant, cap=cap, resume=resume)
    return Session(data, accountant, release, source)
