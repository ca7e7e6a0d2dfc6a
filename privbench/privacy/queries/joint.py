"""Several queries of one table, whose statistics stand one after the other in one event."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.query import Integers, Query


@dataclass(frozen=True, slots=True)
class Joint(Query):
    """The cells of all parts one after the other, as one vector; `split` takes a result apart.

    A subclass says what its parts are, and what one unit moves in all of them together.

    Attributes:
        parts: Queries of one table.
    """

    parts: tuple[Query, ...]

    def __post_init__(self) -> None:
        if len({part.table for part in self.parts}) != 1:
            raise SchemaError(f"{self.kind} have parts, all of one table.")

    @property
    def table(self) -> str:
        """See `Query.table`."""
        return self.parts[0].table

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    @property
    def shape(self) -> tuple[int, ...]:
        """One axis: the cells of all parts."""
        return (sum(math.prod(part.shape) for part in self.parts),)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        """The statistics of the parts, in their own units."""
        return np.concatenate([part.evaluate(data).ravel() for part in self.parts])

    def split(self, measured: ArrayLike) -> list[NDArray[np.float64]]:
        """The part of a result of `Session.measure` that belongs to each part, of its shape."""
        ends = np.cumsum([math.prod(part.shape) for part in self.parts])
        pieces = np.split(np.asarray(measured, np.float64), ends[:-1])
        return [piece.reshape(part.shape) for piece, part in zip(pieces, self.parts, strict=True)]
