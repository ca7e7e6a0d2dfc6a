"""Train on synthetic rows, test on real ones: how well predictive models do.

Test rows are real and no training row is among them. Inputs of linear models and of the
multi-layer perceptron are scaled. Parameters that are not given here are scikit-learn's defaults.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privbench.errors import UsageError
from privbench_lab.bench.table import Table

Floats = NDArray[np.float64]


_GBM = {"max_features": "sqrt", "max_depth": 8, "min_samples_leaf": 50, "min_samples_split": 200}
_EARLY = {"early_stopping": True}
#: scikit-learn's classifier and regressor of every name, and their parameters. `gbm` is P3GM's.
LEARNERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "lr": ("linear_model.LogisticRegression", "linear_model.LinearRegression", {"max_iter": 1000}),
    "rf": ("ensemble.RandomForestClassifier", "ensemble.RandomForestRegressor", {}),
    "mlp": ("neural_network.MLPClassifier", "neural_network.MLPRegressor", _EARLY),
    "gnb": ("naive_bayes.GaussianNB", "", {}),
    "gb": ("ensemble.GradientBoostingClassifier", "ensemble.GradientBoostingRegressor", {}),
    "ada": ("ensemble.AdaBoostClassifier", "ensemble.AdaBoostRegressor", {}),
    "bag": ("ensemble.BaggingClassifier", "ensemble.BaggingRegressor", {}),
    "gbm": ("ensemble.GradientBoostingClassifier", "ensemble.GradientBoostingRegressor", _GBM),
    "hgb": (
        "ensemble.HistGradientBoostingClassifier",
        "ensemble.HistGradientBoostingRegressor",
        {},
    ),
}
#: Learners whose inputs are scaled.
_SCALED = frozenset({"lr", "mlp"})


def require_learners(names: list[str], *, numbers: bool) -> None:
    """Refuse models that are unknown or not installed.

    The UsageError says which, or that scikit-learn is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        remedy = "Install it: pip install scikit-learn."
        raise UsageError("scikit-learn is not installed.", remedy=remedy)
    known = [name for name, row in LEARNERS.items() if row[numbers]]
    for name in names:
        if name not in known:
            kind = "regressor" if numbers else "classifier"
            raise UsageError(f"no {kind} {name!r}.", remedy=f"Known: {', '.join(known)}.")


def _model(name: str, seed: int, *, numbers: bool) -> Any:
    """An untrained model of that name, seeded if it takes a seed."""
    regressor, classifier = LEARNERS[name][1], LEARNERS[name][0]
    module, _, kind = (regressor if numbers else classifier).partition(".")
    made = getattr(importlib.import_module(f"sklearn.{module}"), kind)()
    given = {**LEARNERS[name][2], "random_state": seed}
    known = made.get_params()
    return made.set_params(**{key: value for key, value in given.items() if key in known})


def score(table: Table, rows: pd.DataFrame, names: list[str], seed: int) -> dict[str, float]:
    """Figures of models that learn the table's target from ``rows``, real or synthetic.

    ``auroc.NAME``, ``auprc.NAME``, ``f1.NAME`` (of several classes the mean over those that the
    test rows have, one against the rest), or ``rmse.NAME``; with their means over all names
    (``auroc.mean``), and over all but the perceptron (``auroc.no_mlp``).
    """
    assert table.target is not None
    found: dict[str, float] = {}
    sides, numbers = _inputs(table, rows), not table.classes
    for name in names:
        model, figures = _model(name, seed, numbers=numbers), _regress if numbers else _classify
        with warnings.catch_warnings():
            # Perceptrons and regressions that stop early warn of it; only their figures matter.
            warnings.simplefilter("ignore")
            scores = figures(table, rows, *sides[name in _SCALED], model)
        found |= {f"{kind}.{name}": value for kind, value in scores.items()}
    for kind in ("rmse",) if numbers else ("auroc", "auprc", "f1"):
        values = {name: found[f"{kind}.{name}"] for name in names}
        found[f"{kind}.mean"] = float(np.mean(list(values.values())))
        others = [value for name, value in values.items() if name != "mlp"]
        found[f"{kind}.no_mlp"] = float(np.mean(others)) if others else float("nan")
    return found


def _inputs(table: Table, rows: pd.DataFrame) -> Mapping[bool, tuple[Floats, Floats]]:
    """Inputs of training and test rows, by whether they are scaled."""
    from sklearn.preprocessing import StandardScaler

    train, test = (inputs(table, side, rows, without=table.target) for side in (rows, table.test))
    if not len(train):
        # Without training rows nothing is learned, and there is nothing to scale by.
        return {False: (train, test), True: (train, test)}
    scaler = StandardScaler().fit(train)
    return {False: (train, test), True: (scaler.transform(train), scaler.transform(test))}


def inputs(
    table: Table, rows: pd.DataFrame, like: pd.DataFrame, *, without: str | None = None
) -> Floats:
    """Inputs of all columns but one, shape (rows, k).

    A number is given as it is, NULL as the median of ``like``. A column of listed values becomes an
    indicator for every value and one for NULL, or, if the data set says so, the value's place.
    """
    parts = []
    for name, column in table.columns.items():
        if name == without:
            continue
        if column.values is None:
            middle = like[name].median()
            numbers = rows[name].fillna(0.0 if np.isnan(middle) else middle)
            parts.append(numbers.to_numpy(np.float64))
            continue
        codes = column.encode(rows[name]).astype(np.int64)
        parts.append(codes if table.config.numbers else np.eye(column.domain.size)[codes])
    return np.column_stack(parts).astype(np.float64)


def _classify(
    table: Table, rows: pd.DataFrame, train: Floats, test: Floats, model: Any
) -> dict[str, float]:
    assert table.target is not None
    target = table.columns[table.target]
    given, wanted = (target.encode(side[table.target]).astype(int) for side in (rows, table.test))
    chances = np.zeros((len(test), len(table.classes)))
    seen, sizes = np.unique(given, return_counts=True)
    if len(seen) < 2:
        chances[:, seen] = 1.0
    else:
        # Stopping early holds out a tenth, with rows of every class in both parts.
        if "early_stopping" in model.get_params() and (
            sizes.min() < 2 or len(given) < 10 * len(seen)
        ):
            model.set_params(early_stopping=False)
        model.fit(train, given)
        chances[:, model.classes_] = model.predict_proba(test)
    return class_figures(wanted, chances, 1 if len(table.classes) == 2 else None)


def class_figures(
    wanted: NDArray[np.int64], chances: Floats, positive: int | None
) -> dict[str, float]:
    """AUROC, AUPRC and F1 of predicted probabilities, shape (rows, classes).

    ``wanted`` is each row's true class. The figures are for the class ``positive``; if that is
    None, they are means over all classes that occur, each against the rest.
    """
    from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

    present = np.unique(wanted)
    counted = [positive] if positive is not None else present.tolist()
    guessed = chances.argmax(axis=1)
    parts = []
    for place in counted:
        real = wanted == place
        if real.all() or not real.any():
            continue
        parts.append(
            (
                roc_auc_score(real, chances[:, place]),
                average_precision_score(real, chances[:, place]),
                f1_score(real, guessed == place, zero_division=0.0),
            )
        )
    means = np.mean(parts, axis=0) if parts else np.full(3, np.nan)
    return {name: float(v) for name, v in zip(("auroc", "auprc", "f1"), means, strict=True)}


def _regress(
    table: Table, rows: pd.DataFrame, train: Floats, test: Floats, model: Any
) -> dict[str, float]:
    known = rows[table.target].notna().to_numpy()
    real = table.test[table.target].to_numpy(np.float64)
    held = ~np.isnan(real)
    # Without rows to learn from the prediction is 0.
    guessed = model.fit(train[known], rows[table.target][known]).predict(test) if known.any() else 0
    gaps = np.broadcast_to(guessed, real.shape)[held] - real[held]
    return {"rmse": float(np.sqrt(np.mean(gaps**2)))}


def ranking_agreement(real: Mapping[str, float], synthetic: Mapping[str, float]) -> float | None:
    """Share of pairs of models that real and synthetic training rows rank alike (SRA).

    Jordon, Yoon and van der Schaar, "Measuring the quality of synthetic data for use in
    competitions", 2018. Ties agree with ties alone. None with fewer than two models.

    >>> ranking_agreement({"a": 0.9, "b": 0.8, "c": 0.7}, {"a": 0.6, "b": 0.7, "c": 0.5})
    0.6666666666666666
    """
    names = sorted(set(real) & set(synthetic))
    agree = [
        np.sign(real[a] - real[b]) == np.sign(synthetic[a] - synthetic[b])
        for i, a in enumerate(names)
        for b in names[:i]
    ]
    return float(np.mean(agree)) if agree else None
