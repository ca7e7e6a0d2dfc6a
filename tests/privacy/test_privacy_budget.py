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
@given(shares=SHARES, total=st.floats(1e-6, 1e3))
def test_amounts_are_shares_of_the_largest_load(shares, total):
    loads = {
        root: sum(Fraction(s) for s, roots in shares.values() if root in roots) for root in "abcde"
    }
    for name, amount in allocate(shares, total).items():
        share, roots = shares[name]
        exact = Fraction(share) * Fraction(total) / max(loads[root] for root in roots)
        assert Fraction(amount) <= exact < Fraction(math.nextafter(amount, math.inf))


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_nonsense_is_refused(wrong):
    for share, total, roots in ((wrong, 1.0, "a"), (1.0, wrong, "a"), (1.0, 1.0, "")):
        with pytest.raises(ValueError, match=r"positive|no root"):
            allocate({"item": (share, frozenset(roots))}, total)


@settings(deadline=None, max_examples=60)
@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_rounding_is_outward(value):
    assert Fraction(round_down(value)) <= value <= Fraction(round_up(value))
    assert round_up(value) <= math.nextafter(round_down(value), math.inf)
