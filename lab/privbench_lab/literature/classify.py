"""The law of a class given a row's other columns, and codes drawn from the laws of rows.

All of it works on a released model, so it costs no budget; a circuit's class law is exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from privbench_lab.circuit import Circuit, log_likelihood, marginal

Floats = NDArray[np.float64]


def class_law(circuit: Circuit, label: str, rows: Mapping[str, NDArray[np.integer]]) -> Floats:
    """Probability of every class given a row's other columns, shape (rows, classes).

    ``rows`` are codes by attribute; those left out are summed out. A row without mass gets the
    class's own law.
    """
    given = {name: codes for name, codes in rows.items() if name != label}
    count = len(next(iter(given.values())))
    size = circuit.domains[label].size
    logs = np.stack(
        [log_likelihood(circuit, {**given, label: np.full(count, code)}) for code in range(size)],
        axis=1,
    )
    top = logs.max(axis=1, keepdims=True)
    known = np.isfinite(top)
    mass = np.where(known, np.exp(logs - np.where(known, top, 0.0)), marginal(circuit, label))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def draw(law: Floats, generator: np.random.Generator) -> NDArray[np.int64]:
    """A code for every row from the row's own law, shape (rows, codes)."""
    below = generator.random(len(law))[:, None] > np.cumsum(law, axis=1)
    return np.asarray(np.minimum(below.sum(axis=1), law.shape[1] - 1))
