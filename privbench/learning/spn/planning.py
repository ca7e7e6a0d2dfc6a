"""Planning: how deep a network can grow, and what each of its operations may spend.

The paper gives every node its own budget and divides it by σ(T), the number of operations that it
expects below. Children of a row split hold disjoint rows, so all nodes of one level can share one
joint query; what composes in sequence is the levels alone. σ(T) is therefore the number of levels,
and every level spends the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, log2


@dataclass(frozen=True, slots=True)
class Budget:
    """Amounts of one table's operations.

    Attributes:
        one_ways: The table's one-way histograms.
        levels: Number of levels of row splits, σ(T).
        evaluate: Pair scores, per level (ε_eval).
        operate: One k-means measurement, per level and iteration (ε_op / J).
        children: The children's histograms, per level.
        leaves: LeafGen; what levels do not use is added to it.
        least: β in force: a region is split where it holds at least 2β rows.
    """

    one_ways: float
    levels: int
    evaluate: float
    operate: float
    children: float
    leaves: float
    least: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Public parameters of the division; see `privbench.synthesizers.paper.PaperOptions`."""

    one_ways: float
    gamma: float
    gamma1: float
    iterations: int
    depth: int
    beta: float


def plan_budget(amount: float, rows: float, noise: float, attributes: int, rule: Shares) -> Budget:
    """Divide a table's amount.

    Args:
        amount: ε or ρ of the table's rows.
        rows: Noisy weight of the table's rows.
        noise: Standard deviation of the noise, in counts, if the whole amount were spent on
            binned histograms of all attributes at once.
        attributes: Number of attributes.
        rule: Public parameters.
    """
    least = rule.beta if rule.beta > 0 else 200.0 * noise
    deepest = floor(log2(max(rows / max(least, 1.0), 1.0)))
    levels = min(rule.depth, deepest) if attributes > 1 else 0
    if levels == 0:
        return Budget(amount, 0, 0.0, 0.0, 0.0, 0.0, least)
    first = rule.one_ways if rule.one_ways > 0 else one_way_share(rows / max(noise, 1e-9))
    rest = amount * (1 - first)
    level = rest * rule.gamma / levels
    moves = level * (1 - rule.gamma1)
    rounds = rule.iterations + 1
    return Budget(
        one_ways=amount - rest,
        levels=levels,
        evaluate=level * rule.gamma1,
        operate=moves / rounds,
        children=moves / rounds,
        leaves=rest * (1 - rule.gamma),
        least=least,
    )


def one_way_share(clarity: float) -> float:
    """Share of one-way histograms: the noisier the table, the more.

    Args:
        clarity: Rows over the standard deviation of the noise of `plan_budget`.
    """
    return min(max(0.9 - 0.085 * (log2(max(clarity, 1.0)) - 6.9), 0.45), 0.92)


def column_shares(sizes: Mapping[str, int]) -> dict[str, float]:
    """Share of every attribute, ∝ min(m, 1000)^⅓ with m cells; they sum to 1."""
    raw = {name: min(size, 1000) ** (1 / 3) for name, size in sizes.items()}
    total = sum(raw.values())
    return {name: value / total for name, value in raw.items()}
