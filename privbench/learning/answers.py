"""Noisy answers of a session, and how they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from privbench.learning.denoise import Floats
from privbench.privacy import Measurement, Query, Session, Step

#: Noisy values and their standard deviation.
Answer = tuple[Floats, float]
#: Asks for a measurement: (query, amount, label).
Measure = Callable[[Query, float, str], Answer]
#: Asks for measurements that do not depend on each other's answers.
MeasureAll = Callable[[Sequence[Measurement]], list[Answer]]


def measured(session: Session, questions: Sequence[Measurement]) -> list[Answer]:
    """Answers in counts to measurements that do not depend on each other, asked as one batch."""
    return [
        (np.asarray(noisy, np.float64), session.noise_scale(item.query, item.amount))
        for item, noisy in zip(questions, session.measure_all(questions), strict=True)
    ]


def released(session: Session, step: Step) -> Answer:
    """What an earlier measurement of a session gave, in counts, shape (cells,)."""
    noisy = np.ravel(np.asarray(step.result, np.float64)) / step.query.unit
    return noisy, session.noise_scale(step.query, step.event.amount)
