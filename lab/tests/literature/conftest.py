"""Databases of one table and sessions on them, for the systems of other papers."""

from itertools import count

import numpy as np
import pytest
from private_tables import Columns, single_table, started

from privbench.domain import Domain
from privbench.privacy import NoiseSource, SeededNoise


def people(rows: int, seed: int = 0) -> Columns:
    """Rows of two hidden groups; the class and five columns depend on the group."""
    g = np.random.default_rng(seed)
    group = g.integers(0, 2, rows)
    found: Columns = {
        f"x{i}": ((g.random(rows) < np.where(group, 0.9, 0.1)).astype(int), Domain(2))
        for i in range(4)
    }
    found["age"] = (np.minimum(group * 20 + g.integers(0, 30, rows), 39), Domain(40, ordered=True))
    found["class"] = ((g.random(rows) < np.where(group, 0.8, 0.1)).astype(int), Domain(2))
    return found


@pytest.fixture
def table():
    """Factory: columns of codes and domains → private database of one table ``t``."""
    return single_table


@pytest.fixture
def rows():
    """Factory of columns of two groups of people."""
    return people


@pytest.fixture
def begin(tmp_path):
    """``begin(database, epsilon, accounting, seed)``: see `started`; each in its own ledger."""
    number = count()

    def start(database, epsilon=3.0, accounting="pure", seed: int | None = 1):
        noise = NoiseSource() if seed is None else SeededNoise(seed)
        path = tmp_path / str(next(number))
        return started(database, path, epsilon, accounting, noise, share=0.02, delta=1e-6)

    return start
