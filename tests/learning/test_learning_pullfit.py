"""Measuring which rows a key refers to: what is asked, and what answers without noise tell."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.learning.bins import Bins
from privbench.learning.fanlaw import law_from_counts
from privbench.learning.junction.context import Variable
from privbench.learning.junction.pullfit import Targets, fit_pulls, planned_pulls
from privbench.learning.keys import KeyModel
from privbench.learning.pulls import attraction
from privbench.privacy import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.queries import Column, Joined
from privbench.rng import generator

ROWS, VALUES = 4000, 30
KEY = KeySpec("k", "link", "post", "ref")
LAW = law_from_counts(
    np.array([6.0, 2.0, 1.0, 1.0]), np.array([0, 1, 2, 4]), np.array([0, 1, 3, 9])
)
DOMAIN = Domain(VALUES, ordered=True)


def spec(names):
    post = TableSpec("post", dict.fromkeys(names, DOMAIN))
    return DatabaseSpec({"post": post, "link": TableSpec("link", {}, (KEY,))})


def targets(*, together):
    """Rows of four variables, and how active each row is."""
    g = generator(1, "targets")
    active = g.normal(size=ROWS)
    codes, bins = {}, Bins(np.zeros(VALUES, np.int64), np.full(VALUES, 1 / VALUES), np.ones(VALUES))
    for number in range(4):
        seen = np.exp(0.7 * (together * active + g.normal(size=ROWS)))
        codes[f"v{number}"] = np.minimum(np.floor(4 * seen), VALUES - 1).astype(np.uint8)
    variables = [Variable(name, DOMAIN, bins) for name in codes]
    return active, Targets(variables, codes, np.arange(ROWS), float(ROWS), float(ROWS), 1.0)


@dataclass
class Asked:
    """Answers every row's cell with a count of its references, and keeps what was asked."""

    codes: dict[str, np.ndarray]
    references: np.ndarray
    axes: list = field(default_factory=list)
    asked: list = field(default_factory=list)

    def __call__(self, query, amount, label):
        (axis,) = query.target
        self.axes.append(axis)
        self.asked.append((label, amount))
        parts = axis.axes if isinstance(axis, Joined) else (axis,)
        cells = tuple(part.bins.values[self.codes[part.attribute]] for part in parts)
        cell = axis.groups.values[cells] if isinstance(axis, Joined) else cells[0]
        counts = np.bincount(cell, self.references, axis.size)
        return counts.reshape(query.shape), 0.5


def fitted(rows, references, names):
    asked = Asked(rows.codes, references)
    model = KeyModel.of(KEY, law=LAW)
    model = fit_pulls(spec(names), KEY, model, 2.0, asked, "laplace", rows, outside=False)
    return model, asked


@pytest.mark.parametrize("together", [0.0, 1.5])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_what_is_asked_is_what_was_planned(together, count):
    _, rows = targets(together=together)
    names = list(rows.codes)[:count]
    rows = Targets(
        rows.variables[:count], {name: rows.codes[name] for name in names}, rows.units, 9.0, 9.0, 1
    )
    model, asked = fitted(rows, np.ones(ROWS), names)
    axes = [Column(name, 12) for name in names]
    planned = [
        (label, 2.0 * part)
        for label, _, part in planned_pulls(spec(names), KEY, axes, outside=False)
    ]
    assert asked.asked == planned
    assert sum(amount for _, amount in asked.asked) == pytest.approx(2.0)
    assert [len(pull.factors) for pull in model.pulls] == [axis.size for axis in asked.axes]
    assert isinstance(asked.axes[0], Joined) == (together > 0 and count > 1)


def test_targets_with_much_of_everything_are_found():
    active, rows = targets(together=1.5)
    law = np.exp(1.5 * active)
    references = generator(2, "references").multinomial(ROWS, law / law.sum()).astype(np.float64)
    model, _ = fitted(rows, np.minimum(references, 4.0), list(rows.codes))
    weights = np.log(attraction(model.pulls, rows.codes, ROWS))
    assert np.corrcoef(weights, active)[0, 1] > 0.8
