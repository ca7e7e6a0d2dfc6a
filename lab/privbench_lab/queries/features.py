"""Rows as vectors of integers, by public maps that read one row at a time.

What a learner computes from a row (a projection, a network's output, a gradient) must be the same
to the last bit whatever other rows there are. A matrix product in floating point does not ensure
that, as its order of summation may depend on the number of rows. So rows, matrices and activations
are integers here, in steps of 1/`STEP`. All products and sums stay below 2⁵³, where floating point
is exact in any order. Division, square root and truncation act on one number at a time and are
correctly rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries.axes import Column
from privbench.privacy.queries.counting import View
from privbench.privacy.query import GRID, PublicArray
from privbench.privacy.spec import DatabaseSpec

#: Grid steps in a coordinate of 1.
STEP = 2**14
#: Most coordinates of a row; with `STEP` it keeps sums of products below 2⁵³.
MOST_COORDINATES = 2**12
#: Greatest constant of a row, for the same reason.
MOST_ORIGIN = 2**17
#: A factor multiplied by this is no larger than its exact value, even if it was rounded up.
_DOWN = 1.0 - 2.0**-40

#: Integers held as floating-point numbers, for fast matrix products.
Whole = NDArray[np.float64]


def cut(values: Whole, step: int = STEP) -> Whole:
    """Integers over ``step``, rounded toward zero, so that no row becomes longer."""
    return np.trunc(values / step)


def lengths(rows: Whole) -> Whole:
    """Squared lengths of rows of integers, exact."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def shortened(rows: Whole, bound: int) -> Whole:
    """Rows of length ``bound`` at most: longer ones are scaled down and rounded toward zero."""
    norms = np.sqrt(lengths(rows))
    long = norms > bound
    rows[long] = np.trunc(rows[long] * (bound / norms[long] * _DOWN)[:, None])
    return rows


def factors(squares: Whole, bound: float) -> Whole:
    """Factors that scale vectors, given their squared lengths, to a length of at most ``bound``."""
    norms = np.maximum(np.sqrt(squares), bound)
    return np.asarray(bound / norms * _DOWN)


@dataclass(frozen=True)
class Features:
    """A map of a table's rows to vectors: a constant, and some coordinates for every column.

    A row's vector is (origin, f), where f joins the coordinates of its codes and is shortened to at
    most the length ``bound``; so its squared length is at most origin² + bound².
    """

    source: str  # the table
    axes: tuple[Column, ...]
    lines: tuple[PublicArray, ...]  # by column, coordinates of codes, (codes, coordinates)
    origin: int = STEP  # the constant, in steps
    bound: int = STEP  # greatest length of f, in steps

    def __post_init__(self) -> None:
        for axis, line in zip(self.axes, self.lines, strict=True):
            if line.shape[:1] != (axis.size,) or int(np.abs(line.values).max(initial=0)) > STEP:
                raise SchemaError("coordinates must lie within ±1.", column=axis.attribute)
        if not (0 < self.origin <= MOST_ORIGIN and 0 < self.bound <= 2**20):
            raise SchemaError("a row's length is not bounded.", table=self.source)
        if self.width > MOST_COORDINATES:
            raise SchemaError(
                f"rows of {self.width} coordinates are too long.",
                table=self.source,
                remedy=f"At most {MOST_COORDINATES}: leave columns out.",
            )

    @classmethod
    def of(cls, spec: DatabaseSpec, table: str, most: int) -> Features:
        """Coordinates of all columns that have more than one code.

        A column of at most ``most`` codes has a coordinate for each code, which is 1 for the row's
        own code and 0 otherwise. A wider, ordered column has one coordinate for the code's position
        between −½ and ½. If it has special codes, it also has one indicator for all ordinary codes
        together and one for each special code.
        """
        domains = {n: d for n, d in spec.tables[table].attributes.items() if d.size > 1}
        axes = tuple(Column.of(spec, table, name) for name in domains)
        lines = tuple(PublicArray.rounded(line_of(d, most), STEP) for d in domains.values())
        return cls(table, axes, lines)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(axis.attribute for axis in self.axes)

    @cached_property
    def width(self) -> int:
        """Coordinates of a row, the constant included."""
        return 1 + sum(line.shape[1] for line in self.lines)

    @cached_property
    def filled(self) -> int:
        """Most coordinates of a row that are not 0."""
        counts = [int(np.count_nonzero(line.values, axis=1).max()) for line in self.lines]
        return 1 + sum(counts)

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """Sizes of the groups of a row's coordinates; see `groups_of`."""
        return tuple(groups_of(line.values.astype(np.float64) for line in self.lines))

    @property
    def places(self) -> NDArray[np.bool_]:
        """Which coordinates after the constant are positions, not probabilities (indicators)."""
        return np.repeat([size == 1 for size in self.groups], self.groups)

    def whole(self, codes: Sequence[NDArray[np.intp]]) -> Whole:
        """The features f of rows before they are shortened, shape (rows, coordinates)."""
        parts = [
            line.values[column].astype(np.float64)
            for line, column in zip(self.lines, codes, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def rows(self, whole: Whole) -> Whole:
        """Rows, shape (rows, width)."""
        constant = np.full((len(whole), 1), float(self.origin))
        return np.concatenate([constant, shortened(whole.copy(), self.bound)], axis=1)

    def blocks(self, data: PrivateDatabase) -> Iterator[tuple[Whole, Whole]]:
        """The features f, not yet shortened to ``bound``, and the rows' weights, block by block.

        Weights are in steps, rounded down.
        """
        view = View.of(data, self.source, self.axes)
        for codes, weights in view.blocks(1):
            whole = self.whole(codes)
            given = np.broadcast_to(np.asarray(weights, np.int64), len(whole))
            yield whole, (given // (GRID // STEP)).astype(np.float64)


def line_of(domain: Domain, most: int) -> Whole:
    """Coordinates of every code of a column, shape (codes, coordinates); see `Features.of`."""
    if domain.size <= most or not domain.ordered or domain.values < 2:
        return np.eye(domain.size)
    special = domain.size - domain.values
    place = np.zeros((domain.size, 1))
    place[: domain.values, 0] = np.linspace(-0.5, 0.5, domain.values)
    if not special:
        return place
    kinds = np.zeros((domain.size, 1 + special))
    kinds[: domain.values, 0] = 1.0
    kinds[domain.values :, 1:] = np.eye(special)
    return np.concatenate([place, kinds], axis=1)


@dataclass(frozen=True)
class Latent:
    """A released linear map of rows to latent rows, which are shortened to length 1 at most."""

    matrix: PublicArray  # shape (dimensions, width of the features), in steps; within ±2²⁰

    def __post_init__(self) -> None:
        if int(np.abs(self.matrix.values).max(initial=0)) > 2**20:
            raise SchemaError("a latent map is too steep.")

    @property
    def dimensions(self) -> int:
        """Coordinates of a latent row."""
        return self.matrix.shape[0]

    def rows(self, rows: Whole) -> Whole:
        """Latent rows, shape (rows, dimensions)."""
        mapped = cut(rows @ self.matrix.values.T.astype(np.float64))
        return shortened(np.clip(mapped, -(2**20), 2**20), STEP)


def groups_of(lines: Iterable[Whole]) -> list[int]:
    """Sizes of the groups of a row's coordinates.

    A group is a single coordinate on a line, or the probabilities of a column's values, whose sum
    is one.
    """
    found: list[int] = []
    for line in lines:
        width, place = line.shape[1], bool((line[:, 0] < 0).any())
        found += [1, width - 1] if place and width > 1 else [width]
    return found
