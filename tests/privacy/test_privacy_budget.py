"""`allocate`: no root table over the total, shares kept, nonsense refused."""

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
def test_allocate_gives_shares_of_the_largest_load_and_no_root_more_than_all(shares, total):
    """Exactly, and as the accountant charges it: the most loaded root spends the total."""

    def loads(amounts):
        return {r: sum(Fraction(amounts[n]) for n in shares if r in shares[n][1]) for r in "abcde"}

    accountant = Accountant("pure", total)
    given = loads({name: share for name, (share, _) in shares.items()})
    for whole, most in ((total, total), (accountant.total, accountant.cap)):
        amounts = allocate(shares, whole)
        assert amounts.keys() == shares.keys()
        heaviest = max(loads(amounts).values())
        assert heaviest <= Fraction(most)
        assert float(heaviest) == pytest.approx(whole, rel=1e-9)
        for name, amount in amounts.items():
            share, roots = shares[name]
            exact = Fraction(share) * Fraction(whole) / max(given[root] for root in roots)
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
