"""Consistency: regions that add up to the table's released histograms."""

from __future__ import annotations

import numpy as np

from privbench.learning.denoise import Floats
from privbench.learning.spn.node import Node

_SWEEPS = 12


def settle(root: Node) -> None:
    """Make sizes add up along the tree, and leaves' bins to the root's.

    The root's counts come from the one-way histograms, which carry the noise of one region; the
    leaves' carry that of all regions together. Iterative proportional fitting, attribute by
    attribute, to the root's bins and the leaves' sizes. The leaves that hold an attribute are
    disjoint regions that make up the whole table, since a product node gives it to one part.
    """
    for name in root.scope:
        _resize(root, name, root.rows)
        leaves = [leaf for leaf in root.leaves() if name in leaf.scope]
        table = np.maximum(np.stack([leaf.counts[name] for leaf in leaves]), 1e-9)
        sizes = table.sum(axis=1)
        for _ in range(_SWEEPS):
            table *= np.maximum(root.counts[name], 0.0) / table.sum(axis=0)
            table *= (sizes / np.maximum(table.sum(axis=1), 1e-300))[:, None]
            table = np.maximum(table, 1e-12)
        for leaf, values in zip(leaves, table, strict=True):
            leaf.counts[name] = values


def size(node: Node) -> float:
    """Estimated rows of a node, from its leaves upward."""
    if node.parts:
        return float(np.mean([size(part) for part in node.parts]))
    if node.children:
        return sum(size(child) for child in node.children)
    return max(node.rows, 0.0)


def scaled(counts: Floats, total: float) -> Floats:
    """Non-negative counts that sum to ``total``."""
    mass = np.maximum(counts, 0.0)
    held = mass.sum()
    if held <= 0:
        return np.full(len(mass), total / len(mass))
    return np.asarray(mass * (total / held))


def _resize(node: Node, name: str, rows: float) -> None:
    """Scale one attribute's counts so that children sum to ``rows``, from the top down."""
    node.counts[name] = scaled(node.counts[name], rows)
    for part in node.parts:
        if name in part.scope:
            _resize(part, name, rows)
    sizes = np.array([size(child) for child in node.children])
    total = sizes.sum() if len(sizes) else 0.0
    share = sizes / total if total > 0 else np.full(len(sizes), 1 / max(len(sizes), 1))
    for child, part in zip(node.children, share * rows, strict=True):
        _resize(child, name, float(part))
