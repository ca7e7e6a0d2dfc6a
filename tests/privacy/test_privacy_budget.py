"""`allocate`: no root table over the total, shares kept, nonsense refused."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.privacy import Accountant, allocate
from privbench.privacy.budget import round_down, round_up

ROOTS = st.frozensets(st.sampled_from("abcde"), min_size=1)
SHARES = st.dictionaries(
    st.text(max_size=4), st.tuples(st.floats(1e-9, 1e9), ROOTS), min_size=1, max_size=12
)


@settings(deadline=None, max_examples=100)
@given(shares=SHARES, total=st.floats(1e-6, 1e3))
def test_no_root_table_exceeds_the_total_and_the_most_loaded_spends_it(shares, total):
    """Exactly, and as the accountant charges it."""
    accountant = Accountant("pure", total)
    for whole, most in ((total, total), (accountant.total, accountant.cap)):
        amounts = allocate(shares, whole)
        assert amounts.keys() == shares.keys()
        loads = {
            root: sum(Fraction(amounts[n]) for n, (_, roots) in shares.items() if root in roots)
            for root in "abcde"
        }
        assert max(loads.values()) <= Fraction(most)
        assert float(max(loads.values())) == pytest.approx(whole, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(shares=SHARES, total=st.floats(1e-6, 1e3), factor=st.sampled_from([0.5, 2.0, 1024.0]))
def test_only_ratios_of_shares_matter(shares, total, factor):
    scaled = {name: (share * factor, roots) for name, (share, roots) in shares.items()}
    assert allocate(scaled, total) == allocate(shares, total)


@settings(deadline=None, max_examples=60)
@given(shares=SHARES)
def test_within_one_root_set_amounts_follow_shares(shares):
    same = {name: (share, frozenset("a")) for name, (share, _) in shares.items()}
    amounts = allocate(same, 1.0)
    whole = math.fsum(share for share, _ in same.values())
    for name, (share, _) in same.items():
        assert amounts[name] == pytest.approx(share / whole, rel=1e-9)


@pytest.mark.parametrize("share", [0.0, -1.0, math.nan, math.inf])
def test_bad_shares_are_refused(share):
    with pytest.raises(ValueError, match="item"):
        allocate({"item": (share, frozenset("a"))}, 1.0)


@pytest.mark.parametrize("total", [0.0, -1.0, math.nan, math.inf])
def test_bad_totals_are_refused(total):
    with pytest.raises(ValueError, match="total"):
        allocate({"item": (1.0, frozenset("a"))}, total)


def test_an_item_is_charged_somewhere():
    with pytest.raises(ValueError, match="no root"):
        allocate({"item": (1.0, frozenset())}, 1.0)


@settings(deadline=None, max_examples=60)
@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_rounding_is_outward(value):
    assert Fraction(round_down(value)) <= value <= Fraction(round_up(value))
    assert round_up(value) <= math.nextafter(round_down(value), math.inf)
