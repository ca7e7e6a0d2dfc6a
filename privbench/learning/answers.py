"""Noisy answers of a session, and how they are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from privbench.learning.denoise import Floats
from privbench.privacy import Measurement, Query, Session
from privbench.privacy.queries import Total

#: Noisy values and their standard deviation.
Answer = tuple[Floats, float]
#: A clip C, the noisy Σ min(n, C) over units, and the standard deviation of its noise.
Clipped = tuple[float, float, float]
#: Takes a measurement: (query, amount, label).
Measure = Callable[[Query, float, str], Answer]


def measured(session: Session, questions: Sequence[Measurement]) -> list[Answer]:
    """Answers in counts to measurements that do not depend on each other, taken as one batch."""
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


def released_totals(session: Session, table: str) -> list[Clipped]:
    """All totals of a table that a session has measured."""
    found = []
    for step in session.trace:
        if isinstance(step.query, Total) and step.query.table == table:
            noisy = float(np.asarray(step.result).item()) / step.query.unit
            sd = session.noise_scale(step.query, step.event.amount)
            found.append((float(step.query.clip), noisy, sd))
    return found


def counted_units(session: Session) -> dict[str, float]:
    """Units that have rows in owned tables, where they were counted; at least the noise."""
    return {
        name: max(noisy, sd)
        for name, table in session.spec.tables.items()
        if table.own is not None
        for clip, noisy, sd in released_totals(session, name)
        if clip == 1
    }
