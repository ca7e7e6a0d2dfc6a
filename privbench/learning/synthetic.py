"""Rows sampled from a model, as codes and row indices of parents, without key values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


def windows(codes: Mapping[str, Codes], pieces: Sequence[Ints]) -> Iterator[dict[str, Codes]]:
    """Yield the codes of ascending rows of a table, piece by piece, and free earlier parts."""
    if not isinstance(codes, Parts):
        yield from ({name: column[rows] for name, column in codes.items()} for rows in pieces)
    elif pieces:
        coming = codes.parts(int(pieces[0][0]), int(pieces[-1][-1]) + 1)
        window: list[tuple[slice, Mapping[str, Codes]]] = []
        for rows in pieces:
            window = [item for item in window if item[0].stop > rows[0]]
            while not window or window[-1][0].stop <= rows[-1]:
                item = next(coming)
                if item[0].stop > rows[0]:
                    window.append(item)
            taken = []
            for some, part in window:
                first, last = np.searchsorted(rows, (some.start, some.stop))
                taken.append((part, rows[first:last] - some.start))
            yield {
                name: np.concatenate([part[name][near] for part, near in taken]) for name in codes
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
