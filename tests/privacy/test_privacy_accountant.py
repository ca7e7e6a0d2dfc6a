"""Sums, caps, shares and conversions; dp-accounting is the oracle (P26)."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from core_toys import CHAIN, Counts
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privbench.errors import BudgetExceeded, PrivacyRefusal
from privbench.privacy import (
    Accountant,
    Event,
    Guarantee,
    Measurement,
    allocate,
    rho_for,
)
from privbench.privacy.accountant import Tally, epsilon_for, price
from privbench.privacy.budget import round_down, round_up
from privbench.privacy.mechanisms import MECHANISMS, VECTOR, Method

ORDERS = list(1 + np.exp(np.linspace(math.log(1e-4), math.log(1e7), 3000)))


def event(name, amount, roots=("a",), delta=0.0, l1=1):
    mechanism = MECHANISMS[name]
    claim = Counts(l1=l1, l2=float(l1), linf=l1).sensitivity(CHAIN)
    if "threshold" in name:
        claim = replace(claim, l0=1)
    scale = mechanism.scale(claim, amount)
    threshold = mechanism.threshold(claim, scale, delta) if "threshold" in name else None
    stub = Measurement(Counts(l1=l1), amount, "stub", delta).event(
        CHAIN, Method(mechanism, scale, threshold), private=True
    )
    return replace(stub, roots=tuple(roots), sensitivity=claim)


@pytest.fixture(scope="module")
def oracle():
    import dp_accounting.pld
    import dp_accounting.rdp

    return dp_accounting


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.05, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6, 1e-2])
def test_conversion_agrees_with_dp_accounting(oracle, rho, delta):
    accountant = oracle.rdp.RdpAccountant(ORDERS)
    accountant.compose(oracle.ZCDpEvent(rho))
    theirs = accountant.get_epsilon(delta)
    assert epsilon_for(rho, delta) == pytest.approx(theirs, rel=1e-3, abs=1e-9)


@given(epsilon=st.floats(1e-4, 60.0), delta=st.floats(1e-14, 0.1))
@settings(max_examples=8, deadline=None)
def test_rho_is_the_inverse_from_below(epsilon, delta):
    rho = rho_for(epsilon, delta)
    assert epsilon_for(rho, delta) <= epsilon
    assert epsilon_for(rho * (1 + 1e-9), delta) > epsilon


def test_conversion_refuses_what_has_no_meaning():
    assert epsilon_for(0.0, 0.0) == 0.0
    for delta in (0.0, 1.0):
        with pytest.raises(PrivacyRefusal):
            epsilon_for(0.1, delta)
    for epsilon in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(PrivacyRefusal):
            rho_for(epsilon, 1e-9)


def test_loss_of_gaussian_and_laplace_events_agrees_with_the_oracle(oracle):
    delta, events = 1e-9, []
    rdp, exact = oracle.rdp.RdpAccountant(ORDERS), oracle.pld.PLDAccountant()
    for rho in (0.01, 0.02, 0.005):
        events.append(event("discrete_gaussian", rho, l1=7))
        multiplier = events[-1].scale / 7
        rdp.compose(oracle.GaussianDpEvent(multiplier), 3)
        exact.compose(oracle.GaussianDpEvent(multiplier), 3)
    ours = Tally([item for item in events for _ in range(3)], "zcdp").guarantee("zcdp", delta)
    assert ours.epsilon == pytest.approx(rdp.get_epsilon(delta), rel=1e-3)
    assert ours.epsilon >= exact.get_epsilon(delta)
    assert ours.delta == delta
    # Laplace events against the oracle.
    exact = oracle.pld.PLDAccountant()
    events = [event("discrete_laplace", 0.1, l1=3) for _ in range(7)]
    for item in events:
        exact.compose(oracle.LaplaceDpEvent(item.scale / 3))
    ours = Tally(events).guarantee("pure", 0.0)
    assert ours == Guarantee(pytest.approx(0.7), 0.0)
    assert ours.epsilon >= exact.get_epsilon(1e-12) - 1e-6
    assert ours.epsilon <= exact.get_epsilon(1e-12) * 1.001


def test_rho_of_gumbel_and_of_pure_events(oracle):
    gumbel = event("noisy_max_gumbel", 0.02)
    epsilon = 2 / gumbel.scale
    assert price(gumbel, "zcdp").amount == pytest.approx(epsilon**2 / 8)
    laplace = event("discrete_laplace", 0.3)
    assert price(laplace, "zcdp").amount == pytest.approx(0.3**2 / 2)
    accountant = oracle.rdp.RdpAccountant(ORDERS)
    accountant.compose(oracle.LaplaceDpEvent(1 / 0.3))
    assert epsilon_for(0.3**2 / 2, 1e-6) >= accountant.get_epsilon(1e-6) * 0.999
    with pytest.raises(PrivacyRefusal):
        price(gumbel, "pure")


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_a_claim_below_the_mechanisms_loss_is_refused(name):
    honest = event(name, 0.25, delta=1e-6 if "threshold" in name else 0.0)
    price(honest, "zcdp")
    for lie in (
        replace(honest, amount=0.2499),
        replace(honest, scale=honest.scale * 0.999),
        replace(honest, sensitivity=replace(honest.sensitivity, l1=2, l2=2.0, linf=2)),
    ):
        with pytest.raises(PrivacyRefusal):
            price(lie, "zcdp")
    if "threshold" in name:
        with pytest.raises(PrivacyRefusal):
            price(replace(honest, delta=1e-7), "zcdp")


@pytest.mark.parametrize(("accounting", "delta"), [("pure", 0.0), ("zcdp", 1e-9)])
@given(parts=st.integers(1, 97), epsilon=st.floats(1e-3, 20.0))
@settings(max_examples=20, deadline=None)
def test_charge_of_equal_parts_spends_the_whole(accounting, delta, parts, epsilon):
    accountant = Accountant(accounting, epsilon, delta, threshold_delta=0.0)
    part = event(VECTOR[accounting].name, accountant.total / parts)
    for _ in range(parts):
        accountant.charge(part)
    guarantee = accountant.guarantee()
    assert epsilon * (1 - 1e-6) <= guarantee.epsilon <= epsilon
    assert guarantee.delta <= delta


@given(
    amounts=st.lists(
        st.tuples(st.floats(1e-3, 0.6), st.frozensets(st.sampled_from("abc"), min_size=1)),
        max_size=25,
    ),
    accounting=st.sampled_from(["pure", "zcdp"]),
)
@settings(max_examples=60, deadline=None)
def test_no_adaptive_sequence_passes_the_cap(amounts, accounting):
    """A refused event is charged to none of its tables; spent is the largest of the sums."""
    accountant = Accountant(accounting, 1.3, 1e-6)
    name = VECTOR[accounting].name
    exact = {}
    for amount, roots in amounts:
        fits = all(exact.get(r, 0) + Fraction(amount) <= Fraction(accountant.cap) for r in roots)
        try:
            accountant.charge(event(name, amount, sorted(roots)))
        except BudgetExceeded:
            assert not fits
        else:
            assert fits
            for root in roots:
                exact[root] = exact.get(root, Fraction(0)) + Fraction(amount)
    assert accountant.spent == pytest.approx(float(max(exact.values(), default=0)))
    for root in "abc":
        left = max(0.0, accountant.total - float(exact.get(root, 0)))
        assert accountant.remaining(root) == pytest.approx(left, abs=1e-12)
    assert accountant.guarantee().epsilon <= 1.3
    assert accountant.guarantee().delta <= 1e-6
    with pytest.raises(PrivacyRefusal, match="no root"):
        accountant.charge(event(name, 1e-3, []))


@pytest.mark.parametrize(
    ("accounting", "epsilon", "share", "name", "amount", "delta", "more"),
    [
        ("zcdp", 2.0, 4e-7, "gaussian_threshold", 0.001, 1e-7, 1e-9),
        ("pure", 1.0, None, "laplace_threshold", 0.125, 2e-7, 2.1e-7),
    ],
)
def test_charge_of_thresholds_sums_delta(accounting, epsilon, share, name, amount, delta, more):
    accountant = Accountant(accounting, epsilon, 1e-6, threshold_delta=share)
    conversion = 0.0 if share is None else 1e-6 - share
    assert accountant.delta_conversion == pytest.approx(conversion)
    part = event(name, amount, delta=delta)
    for _ in range(4):
        accountant.charge(part)
    with pytest.raises(BudgetExceeded, match="delta"):
        accountant.charge(event(name, amount, delta=more))
    guarantee = accountant.guarantee()
    # What is stated is the limit on δ, and under zCDP one on ε that was fixed in advance as well.
    assert guarantee.delta == 1e-6
    if accounting == "pure":
        assert guarantee.epsilon == 4 * amount
    else:
        terms = accountant.terms
        limits = [share * terms.cap for share in terms.levels]
        level = min(limit for limit in limits if limit >= 4 * amount)
        assert guarantee.epsilon == epsilon_for(level, round_down(Fraction(conversion) / 512))


def test_a_promise_is_one_of_few_levels_that_were_fixed_before_the_first_event():
    """Whatever an outcome spent or lost: of zCDP's sums only nine promises can come (P36)."""
    accountant = Accountant("zcdp", 3.2, 1e-9, threshold_delta=0.0)
    terms, stated = accountant.terms, {}
    for part in range(1, 401):
        spent = Fraction(terms.cap) * part / 200
        level = terms.level(spent)
        stated.setdefault(level, []).append(spent)
        assert spent <= Fraction(level.rho)
    assert sorted(level.rho / terms.cap for level in stated) == pytest.approx(
        [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 9 / 8, 3 / 2, 2], rel=1e-15
    )
    assert sum(Fraction(level.delta) for level in stated) <= Fraction(1e-9)
    epsilons = [level.epsilon for level in sorted(stated, key=lambda level: level.rho)]
    assert epsilons == sorted(epsilons)
    assert epsilons[5] == pytest.approx(3.2, rel=1e-9)
    # The levels together cost the cap a thousandth, where half of δ would cost it 3.5 %.
    assert terms.cap > 0.999 * rho_for(3.2, 1e-9)
    accountant.charge(event("discrete_gaussian", accountant.total / 3))
    assert accountant.guarantee() == Guarantee(terms.level(Fraction(terms.cap) / 2).epsilon, 1e-9)
    accountant.charge(event("discrete_gaussian", accountant.total / 3))
    assert accountant.guarantee() == Guarantee(3.2, 1e-9)


@pytest.mark.parametrize(
    ("parts", "place"),
    [([], 5), ([1e-3], 6), ([1 / 8], 6), ([1 / 8, 1e-3], 7), ([1 / 2], 7), ([0.6, 0.4], 8)],
)
def test_what_was_lost_leads_to_one_of_the_levels_that_were_fixed(parts, place):
    """Lost amounts follow from released sizes, so no limit may be made of them."""
    terms = Accountant("zcdp", 3.2, 1e-9, threshold_delta=1e-10).terms
    shares = sorted([*terms.levels, 1.0])
    level = terms.level(Fraction(shares[place]) * Fraction(terms.cap))
    lost = [event("discrete_gaussian", part * terms.cap * (1 - 1e-9)) for part in parts]
    epsilon = level.epsilon if lost else 3.2
    assert terms.reserved(lost) == Guarantee(epsilon, 1e-9)
    # What is promised in the end is the least level that all events stay within.
    tally = Tally([event("discrete_gaussian", terms.cap), *lost], "zcdp")
    assert terms.promised(tally, lost) == Guarantee(epsilon, 1e-9)
    more = [*lost, event("discrete_gaussian", terms.cap * 1.01)]
    assert terms.reserved(more).epsilon == math.inf


def test_lost_threshold_releases_add_their_delta_to_what_is_promised():
    terms = Accountant("zcdp", 3.2, 1e-9, threshold_delta=4e-10).terms
    lost = [event("gaussian_threshold", 1e-3, delta=3e-10)]
    assert terms.reserved(lost).delta == pytest.approx(1.3e-9)
    asked = Tally([*lost, event("gaussian_threshold", 1e-3, delta=4e-10)], "zcdp")
    conversions = sum(
        Fraction(level.delta)
        for level in {terms.level(Fraction(terms.cap) * part / 32) for part in range(1, 65)}
    )
    assert conversions + asked.delta() <= Fraction(terms.promised(asked, lost).delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (0.5, 0.05), (1.0, 0.1), (3.2, 1e-9)])
def test_no_outcome_is_promised_less_than_was_asked_for(epsilon, delta):
    """The conversion of a level has little δ, which costs more ε than half of ρ saves."""
    terms = Accountant("zcdp", epsilon, delta).terms
    stated = {terms.level(Fraction(terms.cap) * part / 64) for part in range(1, 65)}
    assert max(level.epsilon for level in stated) <= epsilon
    assert len(stated) > 1
    in_order = sorted(stated, key=lambda level: level.rho)
    assert in_order == sorted(stated, key=lambda level: level.epsilon)


@pytest.mark.parametrize(
    ("accounting", "epsilon", "delta", "threshold_delta"),
    [("pure", 0.0, 0.0, None), ("pure", math.inf, 0.0, None), ("pure", 1.0, 1.0, None),
     ("pure", 1.0, 1e-9, 1e-8), ("zcdp", 1.0, 0.0, None), ("zcdp", 1.0, 1e-9, 1e-9)],
)  # fmt: skip
def test_impossible_budgets_are_refused(accounting, epsilon, delta, threshold_delta):
    with pytest.raises(PrivacyRefusal):
        Accountant(accounting, epsilon, delta, threshold_delta=threshold_delta)


@given(
    amount=st.floats(1e-4, 5.0),
    l1=st.integers(1, 2**40),
    name=st.sampled_from(sorted(MECHANISMS)),
    roots=st.lists(st.text(min_size=1), min_size=1, max_size=3),
)
@settings(max_examples=20, deadline=None)
def test_events_survive_json(amount, l1, name, roots):
    assume("threshold" not in name)
    original = event(name, amount, roots, l1=l1)
    assert Event.from_json(json.loads(json.dumps(original.to_json()))) == original
    assert original.same(replace(original, id=9))
    assert not original.same(replace(original, label="other"))


# Shares of a budget.

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
