"""Nodes of a network that grows: regions of rows and sets of attributes, with released counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privbench.learning.denoise import Floats
from privbench.privacy.queries import Region, Split


@dataclass(slots=True, eq=False)
class Node:
    """A region of rows, restricted to some attributes.

    Attributes:
        region: Public description of its rows.
        scope: Its attributes.
        counts: Estimated counts per attribute and bin; each sums to `rows`.
        prior: The counts that were expected before the region itself was measured.
        precision: Inverse variance of the region's own measurements, 0 without one.
        noisy: Precision-weighted mean of those measurements per attribute.
        parts: Children by attributes (a product node).
        split: How its rows are split (a sum node).
        children: Children by rows.
    """

    region: Region
    scope: tuple[str, ...]
    counts: dict[str, Floats]
    precision: float = 0.0
    noisy: dict[str, Floats] = field(default_factory=dict)
    parts: list[Node] = field(default_factory=list)
    split: Split | None = None
    children: list[Node] = field(default_factory=list)
    prior: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.prior = self.prior or dict(self.counts)

    @property
    def rows(self) -> float:
        """Estimated weight of its rows."""
        return float(np.mean([self.counts[name].sum() for name in self.scope]))

    @property
    def is_leaf(self) -> bool:
        """Whether nothing is below it yet."""
        return not self.parts and not self.children

    def leaves(self) -> list[Node]:
        """Nodes below (or itself) that are not split further."""
        if self.is_leaf:
            return [self]
        return [leaf for child in (*self.parts, *self.children) for leaf in child.leaves()]

    def observe(self, noisy: dict[str, Floats], sd: float) -> None:
        """Take in one more measurement of its binned histograms."""
        new = 1.0 / max(sd, 1e-9) ** 2
        total = self.precision + new
        for name, values in noisy.items():
            old = self.noisy.get(name, values)
            self.noisy[name] = (old * self.precision + values * new) / total
        self.precision = total

    @property
    def sd(self) -> float:
        """Standard deviation of `noisy`."""
        return float(1.0 / np.sqrt(max(self.precision, 1e-300)))
