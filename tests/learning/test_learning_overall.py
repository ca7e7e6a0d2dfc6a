"""Many ordered variables as one score."""

from __future__ import annotations

import numpy as np
import pytest

from privbench.domain import Domain
from privbench.learning.bins import Bins
from privbench.learning.junction.context import Variable
from privbench.learning.junction.overall import BEYOND, overall
from privbench.learning.pulls import Pull
from privbench.privacy import KeySpec
from privbench.privacy.queries import FAN_OUT_BOUNDS, Children
from privbench.rng import generator

VALUES, ROWS = 30, 20_000


def variable(name, *, values=VALUES, ordered=True, nullable=False, key=None):
    domain = Domain(values, ordered=ordered, nullable=nullable)
    one = np.ones(domain.size)
    bins = Bins(np.zeros(domain.size, np.int64), one / one.sum(), one)
    return Variable(name, domain, bins, key)


def children(name):
    """A number of children."""
    return variable(name, values=len(FAN_OUT_BOUNDS), key=KeySpec(name, "c", "p", "own", False))


def rows(seed=1, noise=0.7):
    """How active rows are, and six variables that show it, one of them the less the more."""
    g = generator(seed, "active")
    active = g.normal(size=ROWS)
    codes = {}
    for number in range(6):
        sign = -1.0 if number == 5 else 1.0
        seen = np.exp(0.8 * (sign * active + noise * g.normal(size=ROWS)))
        codes[f"v{number}"] = np.minimum(np.floor(3 * seen), VALUES - 1).astype(np.uint8)
    return active, codes


def found(codes, **options):
    return overall([variable(name, **options) for name in codes], codes)


def pull(whole):
    return Pull(whole.terms, whole.ends, np.ones(len(whole.ends) + 1))


def test_the_sum_tells_more_than_any_variable():
    active, codes = rows()
    bins = pull(found(codes)).bins(codes)
    together = abs(np.corrcoef(bins, active)[0, 1])
    assert together > max(abs(np.corrcoef(held, active)[0, 1]) for held in codes.values()) + 0.05
    assert together > 0.85
    slopes = {term.variable: term.scores[-1] - term.scores[0] for term in found(codes).terms}
    assert {name for name, slope in slopes.items() if slope < 0} == {"v5"}


def test_bins_grow_finer_toward_the_largest_sums():
    _, codes = rows()
    whole = found(codes)
    share = np.bincount(pull(whole).bins(codes)) / ROWS
    beyond = np.cumsum(share[::-1])[::-1][1:]
    assert len(beyond) >= len(BEYOND) - 1
    assert beyond[:6] == pytest.approx(np.array(BEYOND)[:6], rel=0.1)
    assert (np.diff(whole.ends) > 0).all()


@pytest.mark.parametrize("nullable", [False, True])
def test_the_axis_counts_the_bins_that_the_model_draws_by(nullable):
    _, codes = rows()
    g = generator(2, "nulls")
    if nullable:
        codes = {name: np.where(g.random(ROWS) < 0.2, VALUES, held) for name, held in codes.items()}
    whole = found(codes, nullable=nullable)
    cells = tuple(axis.bins.values[codes[axis.attribute]] for axis in whole.axis.axes)
    assert (whole.axis.groups.values[cells] == pull(whole).bins(codes)).all()
    assert whole.axis.size == len(whole.ends) + 1
    everything = {name: np.arange(VALUES + nullable) for name in codes}
    assert pull(whole).bins(everything).max() <= len(whole.ends)


def test_the_same_rows_give_the_same_score_and_other_orders_of_them_too():
    _, codes = rows()
    order = generator(3, "order").permutation(ROWS)
    first, again = found(codes), found({name: held[order] for name, held in codes.items()})
    assert first.axis == again.axis
    assert [term.scores.tolist() for term in first.terms] == [
        term.scores.tolist() for term in again.terms
    ]


def test_variables_that_say_nothing_of_the_others_are_left_out():
    _, codes = rows()
    codes["alone"] = generator(4, "alone").integers(0, VALUES, ROWS).astype(np.uint8)
    assert "alone" not in [term.variable for term in found(codes).terms]


def test_at_most_seven_variables_and_no_fewer_than_two():
    _, codes = rows()
    more = codes | {f"w{name}": held for name, held in rows()[1].items()}
    assert len(found(more).terms) == 7
    assert found({"v0": codes["v0"]}) is None
    assert found(codes, ordered=False) is None
    same = {"v0": codes["v0"], "flat": np.zeros(ROWS, np.uint8)}
    assert found(same) is None
    assert found({name: held[:0] for name, held in codes.items()}) is None


def test_numbers_of_children_count_in_their_buckets_and_the_sum_grows_with_them():
    _, codes = rows()
    codes = {f"v{number}": VALUES - 1 - codes[f"v{number}"] for number in range(5)}
    codes["fan"] = np.minimum((VALUES - 1 - codes["v0"]) // 2, 12).astype(np.uint8)
    variables = [children("fan"), *(variable(name) for name in codes if name != "fan")]
    whole = overall(variables, codes)
    place = [term.variable for term in whole.terms].index("fan")
    axis, scores = whole.axis.axes[place], whole.terms[place].scores
    assert isinstance(axis, Children)
    starts = np.searchsorted(FAN_OUT_BOUNDS, axis.bounds)
    assert (np.diff(scores) >= 0).all()
    assert (np.flatnonzero(np.diff(scores)) + 1).tolist() == starts[1:].tolist()
    assert whole.leads


def test_numbers_of_children_that_are_left_out_lead_nothing():
    _, codes = rows()
    codes["fan"] = generator(5, "fan").integers(0, 9, ROWS).astype(np.uint8)
    whole = overall([children("fan"), *(variable(f"v{number}") for number in range(6))], codes)
    assert "fan" not in [term.variable for term in whole.terms]
    assert not whole.leads


@pytest.mark.parametrize("size", [30, 300, ROWS])
@pytest.mark.parametrize("variables", [2, 6])
def test_variables_that_have_nothing_to_do_with_each_other_are_not_added_up(variables, size):
    """Preferences for one of them would be told by noise of all of them."""
    for seed in range(10):
        g = generator(seed, "apart")
        codes = {f"v{number}": g.integers(0, VALUES, size) for number in range(variables)}
        assert found(codes) is None


@pytest.mark.parametrize("flipped", [False, True])
def test_numbers_of_children_that_are_left_out_do_not_turn_the_sum(flipped):
    """Turned, nine tenths of the rows had the largest sum, and all of them one bin."""
    few = np.arange(ROWS) % 10 == 0
    fan = generator(6, "fan").random(ROWS) < 0.5
    codes = {"fan": (fan ^ flipped).astype(np.uint8)}
    codes |= {f"v{number}": few.astype(np.uint8) for number in range(3)}
    whole = overall([children("fan"), *(variable(f"v{number}") for number in range(3))], codes)
    assert np.bincount(pull(whole).bins(codes)).tolist() == [ROWS - ROWS // 10, ROWS // 10]


def test_ties_hang_on_no_order_of_rows():
    """Ten variables in five equal pairs, of which seven variables are kept."""
    _, codes = rows()
    twice = {f"v{number}": codes[f"v{number // 2}"] for number in range(10)}
    first = found(twice)
    for seed in range(20):
        order = generator(seed, "order").permutation(ROWS)
        again = found({name: held[order] for name, held in twice.items()})
        assert first.axis == again.axis


def test_of_thirty_variables_that_tell_as_much_seven_are_taken():
    active, _ = rows()
    g = generator(5, "thirty")
    codes = {
        f"v{number}": np.clip(np.floor(8 + 5 * (active + g.normal(size=ROWS))), 0, VALUES - 1)
        for number in range(30)
    }
    whole = found({name: held.astype(np.uint8) for name, held in codes.items()})
    assert len(whole.terms) == 7
