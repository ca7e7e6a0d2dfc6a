"""What a table's learner works on: variables of a row, and what its owners give.

Variables of a row are its attributes, the buckets of its numbers of children (*early*: the others
are drawn given them, since children by attributes would invent heavy parents) and where its
references lead. What owners give is taken from the synthetic owners, which are drawn first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privbench.domain import Domain
from privbench.learning.bins import Bins
from privbench.learning.denoise import Floats
from privbench.learning.junction.given import Given, GivenColumn, Ints
from privbench.learning.junction.oneway import fill_bins
from privbench.learning.junction.population import Population
from privbench.privacy import DatabaseSpec, KeySpec
from privbench.privacy.queries import (
    FAN_OUT_BOUNDS,
    Axis,
    Children,
    Column,
    Owner,
    PublicArray,
    Refers,
)

#: Most given attributes of one table, and most bins of one.
MOST, BINS = 48, 12
#: A group of owners by number of children is to hold this many standard deviations of noise, and
#: a bin of another given attribute this many.
GROUP, BIN = 0.3, 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """One variable of a row.

    Attributes:
        name: Attribute, or `fan_variable` or `link_variable` of a key.
        domain: Its codes.
        bins: Released bins of the codes.
        key: The OWN key whose rows are counted, or the key that refers; None for attributes.
    """

    name: str
    domain: Domain
    bins: Bins
    key: KeySpec | None = None

    @property
    def early(self) -> bool:
        """Whether it is a number of children, which is drawn before the others."""
        return self.key is not None and self.key.role == "own"

    @property
    def ordered(self) -> int:
        """How many of its bins, the first ones, follow an order."""
        return in_order(self.domain, self.bins.of)

    @property
    def axis(self) -> Axis:
        """Its bins as an axis of queries."""
        return self.binned(self.bins.of)

    def binned(self, of: Ints) -> Axis:
        """The axis with other bins of the codes.

        Args:
            of: Bin of every code, shape (codes,); ascending for a number of children, and every
                code its own for a reference.
        """
        if self.key is None:
            return Column(self.name, int(of.max()) + 1, PublicArray(of))
        if not self.early:
            return Refers(self.key, own=self.domain.size == 3)
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        return Children(self.key, tuple(FAN_OUT_BOUNDS[start] for start in starts.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Given attributes: how they follow from owners, their axes, and synthetic rows of them.

    Attributes:
        columns: How each follows from an owner.
        axes: Their axes.
        given: Synthetic rows of them.
        ordered: How many bins of each, the first ones, follow an order.
        early: Whether each is a number of children.
    """

    columns: tuple[GivenColumn, ...] = ()
    axes: tuple[Axis, ...] = ()
    given: Given | None = None
    ordered: tuple[int, ...] = ()
    early: tuple[bool, ...] = ()


def in_order(domain: Domain, of: Ints) -> int:
    """How many bins of a domain's codes, the first ones, follow an order."""
    return int(of[domain.values - 1]) + 1 if domain.ordered and domain.values else 0


def groups(counts: Floats, least: float) -> Ints:
    """Runs of codes, made from the last one, that each hold a least count; shape of ``counts``.

    >>> groups(np.array([50.0, 5.0, 4.0, 3.0, 1.0]), 6.0).tolist()
    [0, 0, 1, 1, 1]
    >>> groups(np.array([50.0, 9.0, 8.0, 7.0, 1.0]), 6.0).tolist()
    [0, 1, 2, 3, 3]
    >>> groups(np.array([2.0, 1.0]), 0.0).tolist(), groups(np.array([2.0, 1.0]), 9.0).tolist()
    ([0, 1], [0, 0])
    """
    of = np.zeros(len(counts), np.int64)
    held, group = 0.0, 0
    for code in range(len(counts) - 1, -1, -1):
        of[code] = group
        held += counts[code]
        if held >= least:
            held, group = 0.0, group + 1
    # A last group that was not filled joins the one above it; `group` is one past the filled ones.
    return np.maximum(max(group - 1, 0) - of, 0)


def fan_groups(counts: Floats, least: float) -> Ints:
    """As `groups` for numbers of children: no children is a group of its own."""
    return np.concatenate([[0], 1 + groups(counts[1:], least)])


def find_context(
    spec: DatabaseSpec,
    table: str,
    variables: Mapping[str, Sequence[Variable]],
    people: Population,
    owners: Ints,
    rows: float,
    sd: float,
) -> Context:
    """Everything that the owners of a table's rows give, nearest owners first.

    Args:
        spec: What is public.
        table: An owned table.
        variables: Variables of its ancestors.
        people: Synthetic rows of its ancestors.
        owners: Owner of every synthetic row of the table, −1 for none.
        rows: Released weight of the table's rows.
        sd: Noise of a pair table.
    """
    weights = people.weights(table, owners)
    columns: list[GivenColumn] = []
    axes: list[Axis] = []
    ordered: list[int] = []
    early: list[bool] = []
    for level, ancestor in enumerate(spec.ancestors(table), 1):
        index = people.index(table, owners, level)
        for variable in variables[ancestor][: MOST - len(columns)]:
            codes = people.codes(ancestor, variable.name)
            held = np.bincount(
                codes[index[index >= 0]], weights[index >= 0], minlength=variable.domain.size
            )
            of = _bins(variable, held * (rows / max(weights.sum(), 1e-300)), sd)
            if of.max() > 0:
                columns.append(GivenColumn(level, variable.name, of))
                axes.append(lifted(spec, table, level, variable.binned(of)))
                ordered.append(in_order(variable.domain, of))
                early.append(variable.early)
    bins = people.given(table, owners, columns)
    return Context(
        tuple(columns),
        tuple(axes),
        Given(tuple(c.size for c in columns), bins, weights),
        tuple(ordered),
        tuple(early),
    )


def _bins(variable: Variable, counts: Floats, sd: float) -> Ints:
    if variable.early:
        return fan_groups(counts, GROUP * sd)
    if variable.key is not None:
        return np.arange(variable.domain.size)
    return fill_bins(counts + 1e-9, variable.domain, BINS, BIN * sd).of


def lifted(spec: DatabaseSpec, table: str, level: int, axis: Axis) -> Axis:
    """An axis of an ancestor as one of the table's rows."""
    own = spec.tables[table].own
    if own is None:
        raise ValueError("a root table has no ancestors")
    return Owner(own, axis if level == 1 else lifted(spec, own.parent, level - 1, axis))
