"""Building a circuit from the leaves up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.arrays import Floats, Ints
from privbench.domain import Domain
from privbench_lab.circuit.structure import LEAF, PRODUCT, SUM, Circuit


class Builder:
    """Collects nodes, children before parents; the node added last is the root.

    Laws and weights are normalised when they are added; a law or weights without mass become even.

    >>> b = Builder({"a": Domain(2)})
    >>> x, y = b.leaf("a", [3, 1]), b.leaf("a", [0, 1])
    >>> b.sum([x, y], [1, 1])
    2
    >>> b.build().nodes
    3
    """

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = dict(domains)
        self._numbers = {name: number for number, name in enumerate(self._domains)}
        self._pieces: dict[str, list[NDArray[Any]]] = {"probabilities": [np.zeros(0)]}
        self._nodes = 0
        self._cells = 0

    def leaves(self, name: str, laws: ArrayLike) -> Ints:
        """Leaves over one attribute, one per row of ``laws`` (k, domain size); returns ids (k,)."""
        table = _normalise(laws)
        size = self._domains[name].size
        if table.shape[1] != size:
            raise ValueError(f"a law over {name!r} must have {size} cells")
        start = self._cells + size * np.arange(len(table))
        self._cells += table.size
        self._pieces["probabilities"].append(table.ravel())
        return self._append(LEAF, np.zeros((len(table), 0)), None, start, self._numbers[name])

    def leaf(self, name: str, law: ArrayLike) -> int:
        """One leaf; returns its id."""
        return int(self.leaves(name, law)[0])

    def products(self, children: ArrayLike) -> Ints:
        """Product nodes, one per row of ``children`` (k, fan-in); returns ids (k,)."""
        return self._append(PRODUCT, children, None)

    def product(self, children: Sequence[int]) -> int:
        """One product node; no children mean the empty product, 1."""
        return int(self.products(children)[0])

    def sums(self, children: ArrayLike, weights: ArrayLike) -> Ints:
        """Sum nodes, one per row of ``children`` and ``weights`` (k, fan-in); returns ids (k,)."""
        return self._append(SUM, children, _normalise(weights))

    def sum(self, children: Sequence[int], weights: ArrayLike) -> int:
        """One sum node; returns its id."""
        return int(self.sums(children, weights)[0])

    def build(self) -> Circuit:
        """The circuit; an empty builder gives the empty product."""
        if not self._nodes:
            self.product([])
        arrays = {name: np.concatenate(pieces) for name, pieces in self._pieces.items()}
        offsets = np.append(0, np.cumsum(arrays.pop("counts"))).astype(np.int64)
        return Circuit(domains=dict(self._domains), offsets=offsets, **arrays)

    def _append(
        self,
        kind: int,
        children: ArrayLike,
        weights: Floats | None,
        start: Ints | int = 0,
        attribute: int = -1,
    ) -> Ints:
        edges = np.atleast_2d(np.asarray(children, np.int64))
        count, fan_in = edges.shape
        if edges.size and (edges.min() < 0 or edges.max() >= self._nodes):
            raise ValueError("children come before their parents")
        if weights is not None and weights.shape != edges.shape:
            raise ValueError("every child of a sum node must have a weight")
        pieces: dict[str, NDArray[Any]] = {
            "kind": np.full(count, kind, np.uint8),
            "counts": np.full(count, fan_in, np.int64),
            "children": edges.ravel(),
            "weights": np.ones(edges.size) if weights is None else weights.ravel(),
            "attribute": np.full(count, attribute, np.int32),
            "start": np.full(count, start, np.int64),
        }
        for name, piece in pieces.items():
            self._pieces.setdefault(name, []).append(piece)
        first, self._nodes = self._nodes, self._nodes + count
        return np.arange(first, self._nodes)


def _normalise(rows: ArrayLike) -> Floats:
    table = np.atleast_2d(np.asarray(rows, np.float64))
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("weights must be finite and non-negative")
    totals = table.sum(axis=1, keepdims=True)
    uniform = np.full_like(table, 1.0 / max(table.shape[1], 1))
    return np.asarray(np.divide(table, totals, out=uniform, where=totals > 0))
