"""Metrics: their ranges, their fixed points, and what they have to tell apart."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench_lab.bench import similarity
from privbench_lab.bench.classifiers import class_figures, ranking_agreement, score
from privbench_lab.bench.config import DataConfig
from privbench_lab.bench.table import Table, table_of

NAMES = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), min_size=2)


@settings(max_examples=50, deadline=None)
@given(NAMES, NAMES)
def test_rankings_agree_with_themselves_and_not_with_their_reverse(real, other):
    assert ranking_agreement(real, real) == 1.0
    reverse = {name: -value for name, value in real.items()}
    names = sorted(real)
    ties = [real[a] == real[b] for i, a in enumerate(names) for b in names[:i]]
    assert ranking_agreement(real, reverse) == pytest.approx(np.mean(ties))
    agreed = ranking_agreement(real, other)
    assert agreed == ranking_agreement(other, real)
    assert agreed is None or 0 <= agreed <= 1


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=3, max_size=40), st.randoms(use_true_random=False))
def test_class_figures_lie_in_their_range_and_are_best_where_all_is_right(wanted, random):
    classes = np.array([0, 1, *wanted])
    right = class_figures(classes, np.eye(3)[classes], None)
    assert all(value == pytest.approx(1.0) for value in right.values())
    chances = np.random.default_rng(random.randrange(99)).random((len(classes), 3))  # type: ignore[attr-defined]
    for positive in (None, 1):
        found = class_figures(classes, chances, positive)
        assert all(0 <= value <= 1 for value in found.values())
    flat = class_figures(classes, np.full((len(classes), 3), 1 / 3), None)
    assert flat["auroc"] == pytest.approx(0.5)


def _rows(count: int, seed: int, tie: float = 1.0) -> pd.DataFrame:
    """A number, a list that follows it, and a target that follows both as closely as ``tie``."""
    numbers = np.random.default_rng(seed)
    x = numbers.integers(0, 30, count)
    side = np.where(numbers.random(count) < 0.9, x > 14, x <= 14)
    target = np.where(numbers.random(count) < tie, side, numbers.random(count) < 0.5)
    names = np.array(["left", "right"])
    return pd.DataFrame(
        {"x": x.astype(str), "side": names[side.astype(int)], "y": target.astype(int).astype(str)},
        dtype=object,
    )


def _table() -> Table:
    config = DataConfig(train="-", target="y")
    return table_of("made", config, _rows(1500, 1), _rows(600, 2), {})


def _made(count: int, seed: int, tie: float = 1.0) -> pd.DataFrame:
    config = DataConfig(train="-")
    rows = _rows(count, seed, tie)
    return table_of("made", config, rows, rows, {}).train.assign(y=rows["y"].to_numpy())


def test_rows_of_the_same_distribution_score_as_real_ones_and_noise_does_not():
    table = _table()
    same, noise = _made(1500, 3), _made(1500, 4, tie=0.0)
    real, like, unlike = (
        score(table, rows, ["lr", "gnb"], seed=0) for rows in (table.train, same, noise)
    )
    assert like["auroc.mean"] == pytest.approx(real["auroc.mean"], abs=0.03)
    assert unlike["auroc.mean"] < real["auroc.mean"] - 0.2
    assert real["auroc.no_mlp"] == real["auroc.mean"]
    near, far = (similarity.propensity(table, rows) for rows in (same, noise))
    assert 0 <= near["pmse.value"] <= 0.25
    assert 0 < near["pmse.ratio"] < 6
    one = noise.assign(x=0.0)
    assert similarity.propensity(table, one)["pmse.ratio"] > 50
    assert far["pmse.value"] <= 0.25
    assert similarity.single_columns(table, table.train) == {"ks.statistic": 0.0, "chi2.p": 1.0}
    assert similarity.single_columns(table, one)["ks.statistic"] > 0.9
    exact = similarity.marginals(table, table.train, [2, 3])
    assert exact == pytest.approx({"kld.2": 0.0, "kld.3": 0.0, "tvd.2": 0.0}, abs=1e-9)
    assert similarity.counting(table, table.train, None)["qerror.max"] == 1.0
    assert similarity.counting(table, noise, None)["qerror.mean"] > 1.05


def test_training_rows_of_one_class_or_without_rows_are_scored():
    table = _table()
    one = table.train[table.train["y"] == "1"]
    assert score(table, one, ["lr"], seed=0)["auroc.lr"] == 0.5
    few = pd.concat([one.iloc[:40], table.train[table.train["y"] == "0"].iloc[:1]])
    for rows in (few, few.iloc[-6:]):
        assert score(table, rows, ["mlp"], seed=0)["auroc.mlp"] >= 0
    empty = table.train.iloc[:0]
    assert score(table, empty, ["lr"], seed=0)["auroc.lr"] == 0.5
    assert similarity.propensity(table, empty) == {}
    assert similarity.single_columns(table, empty) == {"ks.statistic": 1.0, "chi2.p": 1.0}


def test_a_number_as_target_gives_the_error_of_its_prediction():
    config = DataConfig(train="-", target="x", task="regression")
    table = table_of("made", config, _rows(400, 1), _rows(200, 2), {})
    found = score(table, table.train, ["lr"], seed=0)
    assert set(found) == {"rmse.lr", "rmse.mean", "rmse.no_mlp"}
    assert 0 < found["rmse.lr"] < float(table.test["x"].std())
