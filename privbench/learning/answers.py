"""Noisy answers of a session, and how they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from privbench.learning.denoise import Floats
from privbench.privacy import Measurement, Query, Session, Step
from privbench.privacy.queries import Total

#: Noisy values and their standard deviation.
Answer = tuple[Floats, float]
#: Asks for a measurement: (query, amount, label).
Measure = Callable[[Query, float, str], Answer]


def measured(session: Session, questions: Sequence[Measurement]) -> list[Answer]:
    """Answers in counts to measurements that do not depend on each other, asked as one batch."""
    return [
        (np.asarray(noisy, np.float64), session.noise_scale(item.query, item.amount))
        for item, noisy in zip(questions, session.measure_all(questions), strict=True)
    ]


def joined(*answers: Answer) -> Answer:
    """Answers to one question as one: their inverse-variance mean.

    >>> joined((np.zeros(1), 1.0), (np.full(1, 10.0), 3.0))
    (array([1.]), 0.94...)
    """
    # Tests replay fits without any noise.
    weights = np.array([max(sd, 1e-9) ** -2 for _, sd in answers])
    mean = np.average([noisy for noisy, _ in answers], axis=0, weights=weights)
    return mean, float(weights.sum() ** -0.5)


def released(session: Session, step: Step) -> Answer:
    """What an earlier measurement of a session gave, in counts, shape (cells,)."""
    noisy = np.ravel(np.asarray(step.result, np.float64)) / step.query.unit
    return noisy, session.noise_scale(step.query, step.event.amount)


def counted_units(session: Session) -> dict[str, tuple[float, float]]:
    """Units that have rows in owned tables, as far as a session counted them, and the noise."""
    found = {}
    for step in session.trace:
        if step.query == Total(step.query.table, 1) and session.spec.tables[step.query.table].own:
            (number,), noise = released(session, step)
            found[step.query.table] = float(number), noise
    return found
