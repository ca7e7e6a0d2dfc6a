"""Rows sampled from a model, as codes and row indices of parents, without key values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Ints
from privbench.domain import Codes
from privbench.learning.draw import CHUNK_ROWS
from privbench.threads import streamed

#: Row index of a missing parent: the reference is NULL.
NULL = -1


class Parts(Mapping[str, Codes]):
    """Codes of a table on which no other table depends, which are drawn in parts on demand.

    A part depends on its number alone, so parts may be drawn in any order and by several threads;
    ``draw`` gives the codes of some rows.
    """

    def __init__(
        self, names: Iterable[str], rows: int, draw: Callable[[slice], Mapping[str, Codes]]
    ) -> None:
        self._names, self._rows, self._draw = tuple(names), rows, draw
        self._whole: dict[str, Codes] | None = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Codes:
        """Codes of all rows; all parts are drawn on the first call."""
        if name not in self._names:
            raise KeyError(name)
        if self._whole is None:
            drawn = [part for _, part in self.parts()]
            self._whole = {each: np.concatenate([part[each] for part in drawn]) for each in self}
        return self._whole[name]

    def through(
        self, names: Iterable[str], change: Callable[[Mapping[str, Codes]], Mapping[str, Codes]]
    ) -> Parts:
        """Return the rows with codes that ``change`` computes from their codes, row by row."""
        return Parts(names, self._rows, lambda rows: change(self._draw(rows)))

    def parts(
        self, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[slice, Mapping[str, Codes]]]:
        """Yield the parts of the rows from ``start`` to before ``stop``, each with its row numbers.

        Without ``stop`` the rows go to the end. Parts come in order; while the caller uses one, the
        next are drawn.
        """
        stop = self._rows if stop is None else stop
        some = [
            slice(first, min(first + CHUNK_ROWS, self._rows))
            for first in range(start - start % CHUNK_ROWS, stop, CHUNK_ROWS)
        ]
        whole = self._whole
        if whole is not None:
            yield from ((rows, {name: whole[name][rows] for name in self}) for rows in some)
            return
        yield from zip(some, streamed(self._draw, some), strict=True)


class Window:
    """Gives the codes of ``rows`` of a table in ascending order and frees parts before them."""

    def __init__(self, codes: Mapping[str, Codes], rows: Ints) -> None:
        self._codes = codes
        ends = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        self._coming = codes.parts(*ends) if isinstance(codes, Parts) else None
        self._held: list[tuple[slice, Mapping[str, Codes]]] = []

    def take(self, rows: Ints) -> dict[str, Codes]:
        """Return the codes of rows, all of which must come after those of earlier calls."""
        if self._coming is None:
            return {name: held[rows] for name, held in self._codes.items()}
        self._held = [item for item in self._held if item[0].stop > rows[0]]
        while not self._held or self._held[-1][0].stop <= rows[-1]:
            item = next(self._coming)
            if item[0].stop > rows[0]:
                self._held.append(item)
        pieces = []
        for some, part in self._held:
            first, last = np.searchsorted(rows, (some.start, some.stop))
            pieces.append((part, rows[first:last] - some.start))
        return {
            name: np.concatenate([part[name][near] for part, near in pieces])
            for name in self._codes
        }


@dataclass(slots=True)
class SyntheticTable:
    """Synthetic rows of one private table."""

    rows: int
    # Codes per attribute, each of shape (rows,); `Parts` where they are drawn later.
    codes: Mapping[str, Codes] = field(default_factory=dict)
    # Parents' row indices (private or public table) by foreign key, shape (rows,); −1 is NULL, −2 a
    # value that no parent has.
    parents: dict[str, NDArray[np.signedinteger[Any]]] = field(default_factory=dict)
    follows: bool = False  # whether no row comes before its owner
    serial: int = 0  # whether keys ascend (1) or descend (-1) with the dates of rows
