"""Naive Bayes on noisy histograms: a classifier, or a regressor on bins, with a simple proof.

One `Joint` holds, for every other column, the table of that column against the target. A
row adds its weight to one cell of each of d tables, so the L1 sensitivity is d and the L2
sensitivity √d (`Joint` has the proof, under both relations). Bins are runs of codes of equal
length, public. Source: Vaidya et al., Differentially Private Naive Bayes Classification, 2013,
which adds noise to the same counts one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats
from privbench.domain import Codes, Domain
from privbench.errors import ConfigError, ModelError
from privbench.learning.answers import Measured
from privbench.learning.denoise import Noise
from privbench.learning.graphical.estimate import shrink
from privbench.privacy import DatabaseSpec
from privbench.privacy.queries import Histogram, Joint, PublicArray

#: Most bins of an ordered column; half or twice as many change the AUROC on adult by under .005.
_BINS = 24
#: Rows that every cell of a table is expected to hold beyond its estimate: additive smoothing.
_TRACE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class NaiveBayes:
    """Law of a target given other columns, as if these were independent given the target."""

    target: str  # name of the target
    prior: Floats  # probability of every code of the target, shape (codes,)
    laws: Mapping[str, Floats]  # per other column its law by target, shape (target codes, codes)

    def law(self, rows: Mapping[str, Codes]) -> Floats:
        """Probability of every code of the target for every row of codes, shape (rows, codes)."""
        count = len(next(iter(rows.values()))) if rows else 0
        logs = np.tile(np.log(np.maximum(self.prior, 1e-300)), (count, 1))
        for name, law in self.laws.items():
            logs += np.log(np.maximum(law, 1e-300)).T[rows[name]]
        mass = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that `from_arrays` reads back, by the columns' order."""
        return {"prior": self.prior, **{f"law{i}": law for i, law in enumerate(self.laws.values())}}

    @classmethod
    def from_arrays(
        cls, target: str, columns: list[str], arrays: Mapping[str, NDArray[Any]]
    ) -> NaiveBayes:
        """The model that `to_arrays` wrote; a ModelError for other shapes, or no probabilities."""
        prior = np.asarray(arrays["prior"], np.float64)
        laws = {name: np.asarray(arrays[f"law{i}"], np.float64) for i, name in enumerate(columns)}
        for law in (prior[None], *laws.values()):
            if law.ndim != 2 or len(law) not in (1, len(prior)) or not (law >= 0).all():
                raise ModelError("the classifier in the model is damaged.")
        return cls(target, prior, laws)


def query_of(spec: DatabaseSpec, table: str, target: str) -> Joint:
    """The tables of every other column against the target; there must be at least one of them."""
    domains = spec.tables[table].attributes
    others = [name for name in domains if name != target]
    if not others:
        raise ConfigError("a classifier needs another column.", table=table, column=target)
    axes = {name: (name, PublicArray(bins_of(domain))) for name, domain in domains.items()}
    return Joint(tuple(Histogram.of(spec, table, [axes[target], axes[name]]) for name in others))


def bins_of(domain: Domain) -> NDArray[np.int64]:
    """Bin of every code: runs of equal length of ordered ones; other cells stand alone."""
    width = max(math.ceil(domain.values / _BINS), 1) if domain.ordered else 1
    of = np.arange(domain.values) // width
    alone = np.arange(domain.size - domain.values) + of.max(initial=-1) + 1
    return np.concatenate([of, alone])


def learn(
    spec: DatabaseSpec, table: str, target: str, rows: float, noise: Noise, answer: Measured
) -> NaiveBayes:
    """Learn a classifier from the noisy tables of `query_of` and a released number of rows."""
    domains = spec.tables[table].attributes
    noisy, sd = answer
    tables = query_of(spec, table, target).split(noisy)
    # The sums of every table are the target's own counts: their precision-weighted mean is taken.
    widths = np.array([values.shape[1] for values in tables], np.float64)
    sums = np.stack([values.sum(axis=1) for values in tables])
    counts = (sums / widths[:, None]).sum(axis=0) / (1 / widths).sum()
    deviation = sd / math.sqrt(float((1 / widths).sum()))
    classes = _singly(counts, deviation, rows, noise) + _TRACE
    of = bins_of(domains[target])
    prior = classes / classes.sum()
    laws = {}
    others = [name for name in domains if name != target]
    for name, values in zip(others, tables, strict=True):
        column = _singly(values.sum(axis=0), sd * math.sqrt(len(values)), rows, noise)
        guess = np.outer(prior, column)
        found = shrink(values, sd, guess, noise) + _TRACE * guess / rows
        law = found / found.sum(axis=1, keepdims=True)
        place = bins_of(domains[name])
        laws[name] = (law / np.bincount(place))[of][:, place]
    return NaiveBayes(target, (prior / np.bincount(of))[of], laws)


def _singly(noisy: Floats, sd: float, rows: float, noise: Noise) -> Floats:
    """Posterior means of the counts of one column, which sum to ``rows``."""
    found = shrink(noisy, sd, np.full(len(noisy), rows / len(noisy)), noise, rows)
    return np.asarray(found * (rows / found.sum()))


def event(table: str, target: str) -> str:
    """Label of the classifier's event."""
    return f"classifier of {table}.{target}"
