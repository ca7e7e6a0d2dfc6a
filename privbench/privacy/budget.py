"""Turn public shares of the budget into amounts, so that no root table exceeds the total."""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

#: Factor that reduces a total whose amounts are computed in doubles, so that rounding cannot bring
#: their sum above the total.
MARGIN = 1 - 1e-9


def root_sums(shares: Iterable[tuple[frozenset[str], float]]) -> dict[str, float]:
    """Return the sum of shares by root table; each item names its root tables and its share.

    >>> root_sums([(frozenset("r"), 1.0), (frozenset("rq"), 2.0)])["r"]
    3.0
    """
    sums: dict[str, float] = {}
    for roots, share in shares:
        for root in roots:
            sums[root] = sums.get(root, 0.0) + share
    return sums


class Purse:
    """A limit on each root table's amounts (ε or ρ), from which amounts are taken one by one.

    >>> purse = Purse(3.0)
    >>> [purse.take(frozenset(roots), 2.0) for roots in ("r", "rq", "q")]
    [True, False, True]
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._used: dict[str, float] = {}

    def take(self, roots: frozenset[str], amount: float) -> bool:
        """Charge an amount to all these root tables and return True.

        If it would bring one of them above the limit, charge none and return False.
        """
        sums = {root: self._used.get(root, 0.0) + amount for root in roots}
        if any(total > self._limit for total in sums.values()):
            return False
        self._used |= sums
        return True


def allocate(shares: Mapping[str, tuple[float, frozenset[str]]], total: float) -> dict[str, float]:
    """Turn public shares into amounts of the accountant's unit.

    Item i has a share s_i and the root tables R_i that it is charged to. With the load of a root
    table r, load_r = Σ s_j over items charged to r, the amount is
    ``a_i = s_i · total / max(load_r for r in R_i)``.

    No root table exceeds the total. Proof: for an item charged to r, max over R_i of the loads is
    at least load_r, so Σ_{i: r ∈ R_i} a_i ≤ Σ_{i: r ∈ R_i} s_i · total / load_r = total. The sums
    are exact fractions, and every amount is rounded down to a float.

    Shares and the total are positive and finite, and every item has at least one root table.

    >>> allocate({"a": (1.0, frozenset("r")), "b": (3.0, frozenset("r")),
    ...           "c": (1.0, frozenset("q"))}, 2.0)
    {'a': 0.5, 'b': 1.5, 'c': 2.0}
    """
    if not _positive(total):
        raise ValueError("the total must be a positive number")
    loads: dict[str, Fraction] = {}
    for name, (share, roots) in shares.items():
        if not _positive(share):
            raise ValueError(f"{name}: a share must be a positive number")
        if not roots:
            raise ValueError(f"{name}: charged to no root table")
        for root in roots:
            loads[root] = loads.get(root, Fraction(0)) + Fraction(share)
    return {
        name: round_down(Fraction(share) * Fraction(total) / max(loads[root] for root in roots))
        for name, (share, roots) in shares.items()
    }


def round_down(value: Fraction) -> float:
    """Return the largest float that is at most ``value``."""
    near = float(value)
    return math.nextafter(near, -math.inf) if Fraction(near) > value else near


def round_up(value: Fraction) -> float:
    """Return the smallest float that is at least ``value``."""
    near = float(value)
    return math.nextafter(near, math.inf) if Fraction(near) < value else near


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0
