"""The circuit of a released model, small enough to be drawn.

The circuit of a tree of columns has a sum node over the groups of a column for every state of the
column above it: thousands of nodes. The drawing shows only the columns with conditions, and those
where the branches to them separate, in the circuit's own order. The other columns are summed out.
Sum nodes of one column that are then equal become one node, and its bins become two or three
branches of about equal probability. No row is read: structure and probabilities are the model's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Ints
from privbench.encoding import Codec
from privbench.report.section_plugins import Modelled
from privbench.synthesizers.model import DatabaseModel
from privbench_lab.circuit import Circuit, probabilities
from privbench_lab.heatmap.routes import drawable, route_of
from privbench_lab.heatmap.tree import Grower, Heat, Node, Place
from privbench_lab.outline import circuits, outlines


@dataclass(frozen=True, eq=False)
class ModelledTable:
    """The released law of one table's rows."""

    circuit: Circuit  # its circuit
    codecs: Mapping[str, Codec]  # by column, what its codes stand for
    # By attribute, the attribute whose sum nodes are directly above its own; None if these are
    # attributes of the owner, or if there are none.
    above: Mapping[str, str | None] = field(default_factory=dict)
    # By attribute, the bin of every code: a sum node has one child for each bin.
    bins: Mapping[str, Ints] = field(default_factory=dict)


def modelled_tables(model: Modelled) -> dict[str, ModelledTable]:
    """The private tables of a released model, by key.

    Circuits of synthesizers that split rows branch on nothing that a row shows, so they have
    neither `ModelledTable.above` nor `ModelledTable.bins`.
    """
    drawn = outlines(model.fitted) if isinstance(model.fitted, DatabaseModel) else {}
    return {
        key: ModelledTable(drawn[key].circuit, model.codecs[key], drawn[key].above, drawn[key].bins)
        if key in drawn
        else ModelledTable(circuit, model.codecs[key])
        for key, circuit in circuits(model.fitted, drawn).items()
    }


#: Most branches of the first and of the second sum node on a path; least probability of a branch.
_BRANCHES, _LEAST = (3, 2), 0.05


def draw(model: ModelledTable, names: Iterable[str]) -> list[Node]:
    """The circuit over a few columns with codecs that are `drawable`; parents come first."""
    drawer = _Drawer(model, sorted(names))
    drawer.grow(drawer.roots, Place())
    return drawer.nodes


def heats(
    model: ModelledTable, nodes: Sequence[Node], queries: Sequence[Mapping[str, Floats]]
) -> Heat:
    """Exact probabilities at the nodes of `draw`, by the model's circuit.

    A query gives the weights of the codes of every column on which it has predicates.
    """
    found = np.array([_node_heats(model, node, queries) for node in nodes]).T
    with np.errstate(invalid="ignore", divide="ignore"):
        return Heat(found[0], [np.clip(met / found[0], 0.0, 1.0) for met in found[1:]])


def _node_heats(
    model: ModelledTable, node: Node, queries: Sequence[Mapping[str, Floats]]
) -> Floats:
    """Probability of the path to a node, alone and together with each query's predicates."""
    used = {name for query in queries for name in query if name in node.columns}
    weights: dict[str, Floats] = {}
    for name in {*used, *node.codes}:
        size = model.circuit.domains[name].size
        way = node.codes.get(name, np.ones(size))
        met = [
            query[name] if name in query and name in node.columns else np.ones(size)
            for query in queries
        ]
        weights[name] = np.asarray(np.stack([np.ones(size), *met]) * way, dtype=np.float64)
    if not weights:
        return np.ones(1 + len(queries))
    return probabilities(model.circuit, weights)


class _Drawer(Grower):
    """Draws a model's circuit over some columns."""

    def __init__(self, model: ModelledTable, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.used = model, frozenset(names)
        self.kept = _kept(model, names)
        self.below: dict[str | None, list[str]] = {}
        for name in self.kept:
            above = next((at for at in _ancestors(model, name) if at in self.kept), None)
            self.below.setdefault(above, []).append(name)
        self.roots = tuple(self.below.get(None, ()))

    def grow(self, roots: tuple[str, ...], at: Place) -> None:
        """Add the node over some columns and all that stand below them in the circuit."""
        scope = self._scope(roots)
        if len(scope) == 1:
            self.add("leaf", scope, at)
        elif len(roots) > 1:
            below = self.add("product", scope, at)
            for root in roots:
                self.grow((root,), below)
        else:
            self._branch(roots[0], scope, at)

    def _branch(self, root: str, scope: tuple[str, ...], at: Place) -> None:
        """Add a sum node over the bins of a column, and below each child the dependent columns."""
        groups = self._groups(root, at)
        if len(groups) < 2:
            product = self.add("product", scope, at)
            for name in scope:
                self.add("leaf", (name,), product)
            return
        branch, children = self.add("sum", scope, at), tuple(self.below.get(root, ()))
        for mask in groups:
            condition, words = route_of(self.model.codecs[root], mask)
            inside = Place(
                branch.parent, (*at.route, condition), words, {**at.codes, root: mask}, at.depth + 1
            )
            if root not in self.used:
                self.grow(children, inside)
                continue
            product = self.add("product", scope, inside)
            self.add("leaf", (root,), product)
            for child in children:
                self.grow((child,), product)

    def _scope(self, roots: Iterable[str]) -> tuple[str, ...]:
        """Columns with conditions, at or below some columns."""
        found: list[str] = []
        for root in roots:
            found += [root] if root in self.used else []
            found += self._scope(self.below.get(root, ()))
        return tuple(found)

    def _groups(self, root: str, at: Place) -> list[NDArray[np.bool_]]:
        """Codes of a column in branches, by whole bins; fewer than two where it cannot branch."""
        if at.depth >= len(_BRANCHES) or root not in self.model.bins:
            return []
        of, domain = self.model.bins[root], self.model.circuit.domains[root]
        each = (of == np.arange(int(of.max()) + 1)[:, None]).astype(np.float64)
        given = {
            name: np.tile(mask.astype(float), (len(each), 1)) for name, mask in at.codes.items()
        }
        given[root] = each * at.codes.get(root, True)
        mass = probabilities(self.model.circuit, given)
        lone = None if domain.null_code is None else int(of[domain.null_code])
        place = _grouped(mass / max(mass.sum(), 1e-300), _BRANCHES[at.depth], domain.ordered, lone)
        return [place[of] == group for group in np.unique(place)]


def _grouped(mass: Floats, most: int, ordered: bool, lone: int | None) -> Ints:
    """The group of every bin, chosen by the bins' probabilities, which sum to 1.

    If bins are ordered, neighbours form groups; otherwise the likeliest bins are groups of their
    own. The bin that holds NULL is a group of its own if it is likely, else part of the last group.
    """
    place = np.zeros(len(mass), np.int64)
    if not ordered:
        order = np.argsort(-mass, kind="stable")[: min(most, len(mass)) - 1]
        heavy = order[mass[order] >= _LEAST]
        place[heavy] = 1 + np.arange(len(heavy))
        if 1.0 - float(mass[heavy].sum()) < _LEAST:
            place[place == 0] = 1
        return place
    null = np.arange(len(mass)) == lone
    alone = bool(null.any()) and mass[null].sum() >= _LEAST
    left = np.where(null & alone, 0.0, mass)
    middle = (np.cumsum(left) - left / 2) / max(float(left.sum()), 1e-300)
    room = most - 1 if alone else most
    place = np.minimum((middle * room).astype(np.int64), room - 1)
    for group in range(room):
        if mass[place == group].sum() < _LEAST:
            place[place == group] = max(group - 1, 0)
    if alone:
        place[null] = most
    return place


def _kept(model: ModelledTable, names: Sequence[str]) -> list[str]:
    """Columns with conditions, and columns where the branches to two of these separate."""
    branches: dict[str, set[str]] = {}
    for name in names:
        for child, above in pairwise([name, *_ancestors(model, name)]):
            branches.setdefault(above, set()).add(child)
    parting = [name for name, below in branches.items() if len(below) > 1 and name not in names]
    return [
        *names,
        *(name for name in parting if name in model.codecs and drawable(model.codecs[name])),
    ]


def _ancestors(model: ModelledTable, name: str) -> Iterator[str]:
    """The columns above one in the circuit, nearest first."""
    above = model.above.get(name)
    while above is not None:
        yield above
        above = model.above.get(above)
