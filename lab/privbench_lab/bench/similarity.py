"""How close synthetic rows are to the real training rows, and how likely test rows in a circuit."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
from scipy.stats import chi2_contingency, ks_2samp

from privbench.metrics.base import summarise
from privbench.metrics.kld import Coded, divergence
from privbench.metrics.qerror import qerrors
from privbench.rng import generator
from privbench_lab.bench.classifiers import Floats, inputs
from privbench_lab.bench.counting import counts
from privbench_lab.bench.fitting import Made
from privbench_lab.bench.table import Table, coarse
from privbench_lab.circuit import log_likelihood

#: Most codes of a number in λ-way marginals. With half as many, KLD is smaller for all
#: synthesizers; with twice as many, larger, since more cells hold no real row.
_CELLS = 100
#: Number of conjunctive queries that are generated if the grid gives none, and their seed.
_QUERIES, _SEED = 1000, 20240229


def propensity(table: Table, rows: pd.DataFrame) -> dict[str, float]:
    """The pMSE and its ratio to what is expected of synthetic rows from the same distribution.

    A logistic regression of the main effects classifies rows as synthetic or real; pMSE is the mean
    squared distance of its answers from the share c of synthetic rows: 0 to max(c, 1 − c)². With k
    parameters and N rows its null expectation is (k − 1)(1 − c)²c/N (Snoke, Raab, Nowok, Dibben and
    Slavković, "General and specific utility measures for synthetic data", 2018).
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if rows.empty:
        return {}
    real = table.train
    both = pd.concat([real, rows], ignore_index=True)
    scaled = StandardScaler().fit_transform(inputs(table, both, real))
    share = len(rows) / len(both)
    labels = np.arange(len(both)) >= len(real)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(C=1e6, max_iter=500).fit(scaled, labels)
    gaps = model.predict_proba(scaled)[:, 1] - share
    pmse = float(np.mean(gaps**2))
    effects = int(np.linalg.matrix_rank(scaled.T @ scaled, hermitian=True))
    expected = effects * (1 - share) ** 2 * share / len(both)
    return {"pmse.value": pmse, "pmse.ratio": pmse / expected if expected else math.nan}


def single_columns(table: Table, rows: pd.DataFrame) -> dict[str, float]:
    """Means over columns: Kolmogorov-Smirnov statistic of numbers, χ² tests of listed values.

    ``chi2.p`` is the p-value of the hypothesis that both sides have one distribution.
    """
    steps, chances = [], []
    for name, column in table.columns.items():
        real, made = table.train[name], rows[name]
        if column.values is None:
            sides = real.dropna().to_numpy(), made.dropna().to_numpy()
            steps.append(float(ks_2samp(*sides).statistic) if all(map(len, sides)) else 1.0)
            continue
        size = column.domain.size
        counts = np.array(
            [np.bincount(column.encode(side), minlength=size) for side in (real, made)]
        )
        counts = counts[:, counts.sum(axis=0) > 0]
        fair = counts.shape[1] > 1 and bool(counts.sum(axis=1).all())
        chances.append(float(chi2_contingency(counts).pvalue) if fair else 1.0)
    found = {"ks.statistic": steps, "chi2.p": chances}
    return {name: float(np.mean(values)) for name, values in found.items() if values}


def marginals(table: Table, rows: pd.DataFrame, ways: list[int]) -> dict[str, float]:
    """λ-way KLD and 2-way TVD over all columns, as ``compare`` defines them."""
    binned = coarse(table, _CELLS)
    real, made = binned.codes(table.train), binned.codes(rows)
    columns = [
        Coded(real[name].astype(np.uint32), made[name].astype(np.uint32), domain.size)
        for name, domain in binned.domains.items()
    ]
    found: dict[str, float] = {}
    for way in dict.fromkeys([2, *ways]):
        means = divergence(columns, way)
        if means is not None:
            found |= {f"kld.{way}": means.kld} if way in ways else {}
            found |= {"tvd.2": means.tvd} if way == 2 else {}
    return found


def counting(table: Table, rows: pd.DataFrame, queries: list[str] | None) -> dict[str, float]:
    """Q-error of counting queries: the grid's, or conjunctions around random real rows."""
    if queries is not None:
        answers = np.column_stack([counts(queries, side) for side in (table.train, rows)])
    else:
        answers = _around_rows(table, rows)
    scale = len(table.train) / max(len(rows), 1)
    found = summarise(qerrors(answers[:, 0], answers[:, 1] * scale))
    if found is None:
        return {}
    return {f"qerror.{point}": getattr(found, point) for point in ("mean", "p50", "p75", "max")}


def _around_rows(table: Table, rows: pd.DataFrame) -> Floats:
    """Counts of conjunctions around real rows on real and synthetic rows, shape (queries, 2)."""
    numbers = generator(_SEED, "queries")
    real, made = table.codes(table.train), table.codes(rows)
    names = list(table.columns)
    found = np.empty((_QUERIES, 2))
    for place in range(_QUERIES):
        anchor = int(numbers.integers(len(table.train)))
        chosen = numbers.permutation(len(names))[: int(numbers.integers(1, len(names) + 1))]
        hits = [np.ones(len(table.train), bool), np.ones(len(rows), bool)]
        for number in chosen:
            name = names[number]
            ordered = table.columns[name].domain.ordered and table.columns[name].domain.size > 20
            kind = int(numbers.integers(3)) if ordered else 0
            test = (np.equal, np.less_equal, np.greater_equal)[kind]
            value = real[name][anchor]
            for hit, side in zip(hits, (real, made), strict=True):
                hit &= test(side[name], value)
        found[place] = [hit.sum() for hit in hits]
    return found


def held_out(made: Made) -> dict[str, float]:
    """Mean natural log-likelihood of the test rows in the codes that the synthesizer saw.

    ``loglik.zero`` is the share of test rows that have no mass; they are left out of the mean.
    """
    if made.circuit is None or len(made.table.test) == 0:
        return {}
    logs = log_likelihood(made.circuit, made.table.codes(made.table.test))
    known = np.isfinite(logs)
    figures = {"loglik.zero": float(1 - known.mean())}
    return figures | ({"loglik.test": float(logs[known].mean())} if known.any() else {})
