"""The junction tree: conditionals of bins in a fixed order, fitted to pair tables.

This is a circuit: a sum node over the bins of an attribute for every configuration of its family,
product nodes below, leaves within bins. It is kept as conditional tables, which are smaller, and
`compile_circuit` writes it out for exact inference. Nothing here reads a private row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from privbench.circuit import Builder, Circuit
from privbench.domain import Domain
from privbench.learning.denoise import Floats
from privbench.learning.junction.given import Given
from privbench.learning.junction.ratios import rake
from privbench.learning.junction.structure import Layout, Pair

Ints = NDArray[np.int64]
_SWEEPS = 15
_TINY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class JunctionTree:
    """A law over bins.

    Attributes:
        layout: Order and cliques.
        sizes: Bins of every attribute.
        laws: For every attribute, the conditional law of its bins, shape (bins of each attribute in
            ``layout.near``, in that order, …, own bins); sums to 1 over the last axis.
    """

    layout: Layout
    sizes: tuple[int, ...]
    laws: tuple[Floats, ...]

    def configurations(self, attribute: int, bins: Mapping[int, Ints] | Ints) -> Ints | int:
        """Row of the conditional table of an attribute, from bins of earlier attributes."""
        code: Ints | int = 0
        for other in self.layout.near[attribute]:
            code = code * self.sizes[other] + bins[other]
        return code

    def kept(self, names: Sequence[int]) -> JunctionTree:
        """The tree over some attributes in their order; the others stand in no clique with them."""
        place = {name: position for position, name in enumerate(names)}
        near, family = (
            tuple(tuple(place[other] for other in of[name]) for name in names)
            for of in (self.layout.near, self.layout.family)
        )
        order = tuple(place[name] for name in self.layout.order if name in place)
        layout = replace(self.layout, order=order, near=near, family=family)
        sizes = tuple(self.sizes[name] for name in names)
        return JunctionTree(layout, sizes, tuple(self.laws[name] for name in names))

    def flat(self, attribute: int) -> Floats:
        """The conditional law as a table, shape (configurations, own bins)."""
        return self.laws[attribute].reshape(-1, self.sizes[attribute])


def fit_tree(
    layout: Layout,
    shares: Sequence[Floats],
    tables: Mapping[Pair, Floats],
    given: Given | None = None,
) -> JunctionTree:
    """Fit every attribute's conditional, in order, to the tables that it shares with earlier ones.

    Args:
        layout: Order and cliques; it has a clique for every pair of ``tables``.
        shares: Released law of the bins of every attribute.
        tables: Pair tables, any total, as fixed targets.
        given: Rows of the attributes that are given, whose joint law is taken from them.
    """
    sizes = tuple(len(share) for share in shares)
    laws: list[Floats] = [np.zeros(0)] * len(sizes)
    joint: dict[int, Floats] = {}
    for name in layout.order:
        near, family = layout.near[name], layout.family[name]
        if given is not None and name < given.count:
            joint[name] = given.table((*family, name))
            laws[name] = _normal(joint[name], shares[name])
            continue
        above = layout.above(name)
        held = np.ones(()) if above is None else joint[above]
        axes = () if above is None else _clique(layout, above)
        parents = _margin(held, axes, near)
        targets = [_target(tables, other, name) for other in near]
        laws[name] = _conditional(parents, shares[name], targets)
        whole = _margin(held, axes, family)
        joint[name] = whole[..., None] * _spread(laws[name], near, family)
    return JunctionTree(layout, sizes, tuple(laws))


def _clique(layout: Layout, name: int) -> tuple[int, ...]:
    return (*layout.family[name], name)


def _margin(table: Floats, axes: tuple[int, ...], kept: tuple[int, ...]) -> Floats:
    """The table summed to some axes, in their order."""
    gone = tuple(place for place, name in enumerate(axes) if name not in kept)
    left = [name for name in axes if name in kept]
    return np.asarray(np.transpose(table.sum(axis=gone), [left.index(name) for name in kept]))


def _spread(law: Floats, near: tuple[int, ...], family: tuple[int, ...]) -> Floats:
    """A law given ``near`` as one given ``family``; both ascend, so axes are only inserted."""
    shape = iter(law.shape)
    return law.reshape([next(shape) if name in near else 1 for name in family] + [law.shape[-1]])


def _target(tables: Mapping[Pair, Floats], other: int, name: int) -> Floats:
    table = tables[other, name] if other < name else tables[name, other].T
    total = table.sum()
    return np.asarray(table / total if total > 0 else np.full(table.shape, 1.0 / table.size))


def _conditional(parents: Floats, share: Floats, targets: Sequence[Floats]) -> Floats:
    """Law of an attribute given its parents' bins, by iterative proportional fitting.

    Args:
        parents: Joint law of the parents.
        share: Law of the attribute.
        targets: For every parent, the joint law of it and the attribute.
    """
    joint = parents[..., None] * share
    wanted = []
    for axis, target in enumerate(targets):
        gone = tuple(place for place in range(parents.ndim) if place != axis)
        wanted.append((axis, gone, rake(target, parents.sum(axis=gone), share, 4)))
    for _ in range(_SWEEPS if len(wanted) > 1 else 1):
        for axis, gone, table in wanted:
            ratio = table / np.maximum(joint.sum(axis=gone), 1e-300)
            shape = [1] * joint.ndim
            shape[axis], shape[-1] = ratio.shape
            joint *= ratio.reshape(shape)
        joint *= share / np.maximum(joint.sum(axis=tuple(range(parents.ndim))), 1e-300)
        joint *= (parents / np.maximum(joint.sum(axis=-1), 1e-300))[..., None]
    joint = np.maximum(joint, 0.0) + _TINY * share * np.maximum(parents[..., None], 1e-30)
    return _normal(joint, share)


def _normal(joint: Floats, share: Floats) -> Floats:
    """Conditional law of the last axis; configurations without mass get the attribute's own law."""
    joint = joint + 1e-60 * (share + 1e-9)
    return np.asarray(joint / joint.sum(axis=-1, keepdims=True))


def compile_circuit(
    tree: JunctionTree, domains: Mapping[str, Domain], leaves: Sequence[Floats]
) -> Circuit:
    """The circuit of a junction tree, linear in the size of its cliques.

    Args:
        tree: The law over bins.
        domains: Attributes that are not given, in their numbers' order.
        leaves: For each of them, the law of the codes in every bin, shape (bins, domain size).

    Given attributes become sum nodes without leaves: the circuit is the law of rows whatever is
    given.
    """
    builder = Builder(domains)
    names, given = list(domains), len(tree.sizes) - len(domains)
    below: dict[int | None, list[int]] = {}
    for name in range(len(tree.sizes)):
        below.setdefault(tree.layout.above(name), []).append(name)
    nodes: dict[int, Ints] = {}
    for name in reversed(tree.layout.order):
        own = name - given
        laws = builder.leaves(names[own], leaves[own]) if own >= 0 else None
        nodes[name] = _sums(builder, tree, name, laws, {w: nodes[w] for w in below.get(name, [])})
    builder.product([int(nodes[name].ravel()[0]) for name in below.get(None, [])])
    return builder.build()


def _sums(
    builder: Builder,
    tree: JunctionTree,
    name: int,
    leaves: Ints | None,
    below: Mapping[int, Ints],
) -> Ints:
    """A sum node for every configuration of the family; shape of the family's bins."""
    family = tree.layout.family[name]
    shape = tuple(tree.sizes[other] for other in (*family, name))
    axes = dict(zip((*family, name), np.indices(shape, sparse=True), strict=True))
    columns = [] if leaves is None else [np.broadcast_to(leaves, shape)]
    for child, nodes in below.items():
        place = tuple(axes[other] for other in tree.layout.family[child])
        columns.append(np.broadcast_to(nodes[place], shape))
    if not columns:
        columns = [np.broadcast_to(builder.products(np.zeros((1, 0), np.int64)), shape)]
    children = columns[0]
    if len(columns) > 1:
        fan = np.stack([column.ravel() for column in columns], axis=1)
        children = builder.products(fan).reshape(shape)
    weights = np.broadcast_to(_spread(tree.laws[name], tree.layout.near[name], family), shape)
    rows = prod(shape[:-1])
    sums = builder.sums(children.reshape(rows, -1), weights.reshape(rows, -1))
    return sums.reshape(shape[:-1])
