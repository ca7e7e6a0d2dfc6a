"""Public maps from raw values to the cells of a domain.

A recoding is total: every value has a cell, even if the domain does not list it, so that no
measurement can fail on a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.arrays import Ints
from privbench.domain import Codes, Domain

#: Sentinels in the values of a `Grid`, which have cells of their own. They sort NULL, NaN, −∞ … +∞.
NULL = -(2**63)
NAN = NULL + 1
NEG_INF = NULL + 2
POS_INF = 2**63 - 1

#: Names of the special cells that an `EdgesRecoding` may have.
BELOW, ABOVE, IS_NAN, IS_NEG_INF, IS_POS_INF = "below", "above", "nan", "-inf", "inf"
#: Name of the special cell of a `LabelsRecoding`.
OTHER = "other"

_BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class EdgesRecoding:
    """A map from grid points to the cells ``[e_i, e_{i+1})`` between public edges.

    Values below the first edge go to the special cell ``below`` if there is one, else to the first
    cell; values from the last edge on go to ``above`` if there is one, else to the last cell. −∞
    and +∞ go to ``-inf`` and ``inf`` if these exist, else where values below and above go. NaN goes
    to ``nan`` if it exists, else where NULL goes. NULL in a column that is not nullable goes to the
    first cell.

    >>> EdgesRecoding((0, 10, 20), ("above",), nullable=True).apply(np.array([3, 10, -4, 20, NULL]))
    array([0, 1, 0, 2, 3], dtype=uint8)
    """

    edges: tuple[int, ...]  # ascending grid points, at least two
    specials: tuple[str, ...] = ()  # any of ``below above nan -inf inf``, in order
    nullable: bool = False  # whether the domain has a NULL cell
    # The cells that the bounds were released for, see `Domain`; None means all.
    core: tuple[int, int] | None = None
    # Integers whose distances are in proportion to those of the edges in value, given if distances
    # of grid points are not. They serve denoising alone, so recodings are compared without them.
    places: tuple[int, ...] | None = field(default=None, compare=False, repr=False)
    since: str = ""  # attribute of the row whose point is subtracted first, if any

    def __post_init__(self) -> None:
        edges = [int(edge) for edge in self.edges]
        if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
            raise ValueError("edges must be at least two ascending integers")
        if edges[0] <= NEG_INF or edges[-1] > POS_INF:
            raise ValueError("edges must lie between the sentinels")
        if not set(self.specials) <= {BELOW, ABOVE, IS_NAN, IS_NEG_INF, IS_POS_INF}:
            raise ValueError("unknown special cell")
        object.__setattr__(self, "edges", tuple(edges))

    @property
    def domain(self) -> Domain:
        """The domain that `apply` maps into."""
        edges = None if self.core is None else self.places or self.edges
        cells = len(self.edges) - 1
        return Domain(cells, True, self.specials, self.nullable, self.core, edges)

    def _code(self, *names: str, default: int) -> int:
        for name in names:
            if name in self.specials:
                return self.domain.special_code(name)
        return default

    def apply(self, values: Ints, base: Ints | None = None) -> Codes:
        """Return the code of every point and sentinel of a `Grid`, in the domain's narrowest type.

        With ``base``, distances from its points are coded; where it has no point, the code is
        NULL's.
        """
        codes: Codes = np.empty(values.size, dtype=self.domain.dtype)
        for start in range(0, values.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            points = values[block]
            if base is not None:
                finite, known = ((p > NEG_INF) & (p < POS_INF) for p in (points, base[block]))
                points = np.where(finite, np.where(known, points - base[block], NULL), points)
            codes[block] = self._apply(points)
        return codes

    def _apply(self, values: Ints) -> NDArray[np.intp]:
        edges = np.array(self.edges, dtype=np.int64)
        first, end, last = int(edges[0]), int(edges[-1]), edges.size - 2
        cells: NDArray[np.intp]
        if end - first == last + 1:
            cells = np.clip(values, first - 1, end) - first
        else:
            cells = np.searchsorted(edges, values, side="right") - 1
        null = self.domain.null_code or 0
        cells[cells < 0] = self._code(BELOW, default=0)
        cells[values >= end] = self._code(ABOVE, default=last)
        cells[values == NEG_INF] = self._code(IS_NEG_INF, BELOW, default=0)
        cells[values == POS_INF] = self._code(IS_POS_INF, ABOVE, default=last)
        cells[values == NAN] = self._code(IS_NAN, default=null)
        cells[values == NULL] = null
        return cells


@dataclass(frozen=True, slots=True)
class LabelsRecoding:
    """A map from texts to cells, one for each public label.

    Text that is not listed goes to the cell ``other`` if there is one, else to that of NULL, else
    to the first cell. NULL in a column that is not nullable goes to ``other`` if there is one, else
    to the first cell.
    """

    since = ""
    values: tuple[str, ...]  # the public labels, distinct, in the domain's order
    other: bool = True  # whether there is a cell for all other text
    nullable: bool = False  # whether the domain has a NULL cell

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values):
            raise ValueError("labels must be distinct")
        self.domain  # noqa: B018  (refuses a domain without cells)

    @property
    def domain(self) -> Domain:
        """The domain that `apply` maps into."""
        return Domain(len(self.values), False, (OTHER,) if self.other else (), self.nullable)

    def apply(self, codes: NDArray[np.signedinteger[Any]], labels: pa.Array) -> Codes:
        """Return the code of every row, in the narrowest type of `domain`.

        ``codes`` has the position of each row's text in ``labels``, the private dictionary, −1 for
        NULL.
        """
        domain = self.domain
        null = domain.null_code
        other = domain.special_code(OTHER) if self.other else None
        positions = pc.index_in(labels, value_set=pa.array(self.values, type=labels.type))
        missing = next((code for code in (other, null) if code is not None), 0)
        table = np.empty(len(labels) + 1, dtype=domain.dtype)
        table[:-1] = positions.fill_null(missing).to_numpy(zero_copy_only=False)
        table[-1] = next((code for code in (null, other) if code is not None), 0)
        return np.asarray(table[codes])


Recoding = EdgesRecoding | LabelsRecoding
