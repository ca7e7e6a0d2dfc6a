"""The model of a table as a small circuit: the tree of its strongest dependences.

A factor may depend on five columns and on owners, and its circuit would have millions of nodes. To
draw a model, each attribute keeps a single parent: the one with the most mutual information on
synthetic rows (the tree of Chow and Liu 1968, among the edges that the model has). All other
parents are summed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from privbench.arrays import Floats, Ints
from privbench.domain import Codes, Domain
from privbench.learning.graphical.columns import HIDDEN
from privbench.learning.graphical.estimate import COUNTED
from privbench.learning.graphical.model import TableLaw, populate
from privbench.learning.information import mutual_information
from privbench.rng import generator
from privbench.synthesizers import FittedModel
from privbench.synthesizers.model import DatabaseModel
from privbench_lab.circuit import Builder, Circuit


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """A table's circuit and how it branches."""

    circuit: Circuit  # over all attributes of the table
    above: Mapping[str, str | None]  # by attribute, the one that it depends on, or None
    # By attribute, the bin of every cell: a sum node has one child for each.
    bins: Mapping[str, Ints]


def circuits(fitted: FittedModel, drawn: Mapping[str, Outline] | None = None) -> dict[str, Circuit]:
    """The circuit of every table: the model of its attributes if that is one, else its outline.

    Tables whose attributes have a model that is no circuit are left out. ``drawn`` are the outlines
    if they are known.
    """
    if not isinstance(fitted, DatabaseModel):
        return dict(getattr(fitted, "circuits", {}))
    found = {name: outline.circuit for name, outline in (drawn or outlines(fitted)).items()}
    for name, law in fitted.laws.items():
        if isinstance(law.model.attributes, Circuit):
            found[name] = law.model.attributes
    return {name: found[name] for name in fitted.laws if name in found}


def outlines(fitted: DatabaseModel) -> dict[str, Outline]:
    """The tree of strongest dependences of every table, with weights from synthetic rows.

    Tables whose attributes have a model of their own have none.
    """
    laws = fitted.laws
    held = [name for name, law in laws.items() if law.model.attributes is None]
    if not held:
        return {}
    most = max(law.rows + law.free for law in laws.values())
    people = populate(laws, min(1.0, COUNTED / max(most, 1.0)), partial(generator, 0))
    return {name: outline(laws[name], people.codes[name]) for name in held}


def outline(law: TableLaw, codes: Mapping[str, Codes]) -> Outline:
    """The outline of a table, on the cells of public synthetic rows, shape (rows,) each."""
    own = {at: name for at, name in enumerate(law.columns) if not name.startswith(HIDDEN)}
    names = list(own.values())
    bins: dict[str, Ints] = {}
    for factor in law.model.factors:
        groupings = zip(factor.parents, factor.parent_groups, strict=True)
        for place, groups in ((factor.column, factor.groups), *groupings):
            # Groups of all levels are nested, so the finest grouping is the one with most groups.
            if place in own and groups.max() > bins.get(own[place], np.zeros(1)).max():
                bins[own[place]] = groups
    shares = {own[f.column]: f.shares for f in law.model.factors if f.column in own}
    bins = {name: bins.get(name, np.zeros(len(shares[name]), np.int64)) for name in names}
    above: dict[str, str | None] = {}
    for factor in law.model.factors:
        if factor.column in own:
            name = own[factor.column]
            near = [own[place] for place in factor.parents if place in own]
            found = [mutual_information(_joint(codes, bins, other, name)) for other in near]
            above[name] = near[int(np.argmax(found))] if near else None
    return Outline(_circuit(names, shares, above, bins, codes), above, bins)


def _joint(codes: Mapping[str, Codes], bins: Mapping[str, Ints], first: str, second: str) -> Floats:
    """Counts of rows by the bins of two attributes."""
    shape = int(bins[first].max()) + 1, int(bins[second].max()) + 1
    index = bins[first][codes[first]] * shape[1] + bins[second][codes[second]]
    return np.bincount(index, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _circuit(
    names: list[str],
    shares: Mapping[str, Floats],
    above: Mapping[str, str | None],
    bins: Mapping[str, Ints],
    codes: Mapping[str, Codes],
) -> Circuit:
    builder = Builder({name: Domain(len(shares[name])) for name in names})
    below: dict[str | None, list[str]] = {}
    for name in names:
        below.setdefault(above[name], []).append(name)

    def held(name: str) -> Ints:
        """One node for every bin of an attribute: its law within the bin, times its children."""
        count = int(bins[name].max()) + 1
        laws = np.zeros((count, len(shares[name])))
        laws[bins[name], np.arange(len(shares[name]))] = shares[name]
        nodes = builder.leaves(name, laws)
        parts = [nodes, *(mixed(child) for child in below.get(name, ()))]
        return builder.products(np.column_stack(parts)) if len(parts) > 1 else nodes

    def mixed(name: str) -> Ints:
        """Sum nodes over the bins of an attribute: one for every bin of its parent, or just one.

        The weights are counts of rows, plus one row that is spread over the bins by the shares.
        """
        nodes, parent = held(name), above[name]
        plain = np.bincount(bins[name], shares[name], minlength=len(nodes))[None]
        weights = plain if parent is None else plain + _joint(codes, bins, parent, name)
        return builder.sums(np.tile(nodes, (len(weights), 1)), weights)

    builder.product([int(mixed(name)[0]) for name in below.get(None, ())])
    return builder.build()
