"""Draw from many distributions at once, without a loop over draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Ints, Rng
from privbench.learning.portable import normal_quantile

#: Rows that are drawn at once; a limit on memory alone. With smaller parts all rows would be
#: farther from their law, since rows are stratified part by part; with twice as many, every thread
#: that draws takes twice the memory.
CHUNK_ROWS = 2**18


def draw(
    table: Floats,
    rows: NDArray[Any],
    generator: Rng,
    numbers: Floats | None = None,
) -> NDArray[Any]:
    """Draw a column number for every row from the distribution ``table[row]``; see `choose`.

    ``table`` has the shape (distributions, cells), each of any positive sum; ``rows`` the shape
    (n,).
    """
    width = table.shape[1]
    columns = np.arange(width, dtype=np.min_scalar_type(width - 1))
    if width == 1:
        return np.zeros(len(rows), columns.dtype)
    widths, columns = np.full(len(table), width), np.tile(columns, len(table))
    return choose(table.ravel(), widths, rows, generator, columns, numbers)


def choose(
    weights: Floats,
    lengths: Ints,
    rows: NDArray[Any],
    generator: Rng,
    cells: NDArray[Any] | None = None,
    numbers: Floats | None = None,
) -> NDArray[Any]:
    """Draw a cell for every row, in proportion to the weights of the row's distribution.

    Rows that share a distribution get a systematic sample (one random offset, even steps) in random
    order. So the number of rows in any run of cells differs from its expectation by less than 1. No
    cell of weight 0 is chosen. If ``numbers`` from 0 to 1 are given, each row gets the quantile of
    its distribution at its number. The result has shape (n,).

    ``weights`` hold the cells of all distributions, one after the other; ``lengths`` give the
    number of cells of each distribution, whose sum of weights is positive. The result takes values
    from ``cells``, or else is the position in ``weights``.
    """
    count, laws = len(rows), len(lengths)
    cells = np.arange(len(weights)) if cells is None else cells
    if not count:
        return cells[:0]
    ends, total = np.cumsum(lengths), np.append(0.0, np.cumsum(weights))
    base = total[ends - lengths]
    if numbers is not None:
        at = base[rows] + numbers * (total[ends] - base)[rows]
        at = np.minimum(at, np.nextafter(total[ends], 0.0)[rows])
        return np.asarray(cells[np.searchsorted(total[1:], at, side="right")])
    kind = np.min_scalar_type(laws - 1)
    order = generator.permutation(count)
    if laws > 1:
        order = order[np.argsort(rows[order].astype(kind), kind="stable")]
    share = (total[1:] - np.repeat(base, lengths)) / np.repeat(total[ends] - base, lengths)
    # Steps (i + u)/n below a share s are those of i < ns - u.
    sizes, offset = np.bincount(rows, minlength=laws), generator.random(laws)
    below = np.ceil(np.repeat(sizes, lengths) * share - np.repeat(offset, lengths))
    before = np.append(0.0, below[:-1])
    before[(ends - lengths)[lengths > 0]] = 0.0
    drawn = np.empty(count, cells.dtype)
    drawn[order] = np.repeat(cells, (below - before).astype(np.int64))
    return drawn


def together(
    owners: Ints | None,
    likeness: float,
    ordered: bool,
    generator: Rng,
    drift: float = 0.0,
    along: NDArray[Any] | None = None,
) -> Floats | None:
    """Draw uniform numbers for rows, sorted by owner, that are correlated within each owner.

    None is returned if the numbers are independent. ``likeness`` is the correlation, from -1 (rows
    of an owner differ as much as possible) to 1 (they are equal). A row's number is made from a
    score of its owner and a score of its own, which are added as in a Gaussian copula, or of which
    one is chosen where cells have no order. Below 0, the rows of an owner get a systematic sample
    for the owner's score. ``drift`` is the correlation of a row's number with its position among
    its owner's rows in the order of the codes ``along``.
    """
    if owners is None or not (likeness or drift):
        return None
    count, alike = len(owners), abs(likeness)
    owner = np.cumsum((owners < 0) | (np.diff(owners, prepend=-1) != 0)) - 1
    sizes = np.bincount(owner)
    own, shared = generator.random(count), generator.random(len(sizes))[owner]

    def steps(by: NDArray[Any], within: Floats) -> Floats:
        turn = np.empty(count)
        turn[np.lexsort((generator.random(count), by, owner))] = np.arange(count)
        return np.asarray((turn - (np.cumsum(sizes) - sizes)[owner] + within) / sizes[owner])

    def uniform(score: Floats) -> Floats:
        score[np.argsort(score, kind="stable")] = (np.arange(count) + generator.random()) / count
        return score

    if drift and along is not None:
        place = normal_quantile(steps(np.sign(drift) * along, own))
        rest = normal_quantile(generator.random(count))
        own = uniform(abs(drift) * place + np.sqrt(1.0 - drift**2) * rest)
    if likeness < 0:
        own, shared = generator.random(count), steps(own, shared)
    if ordered:
        shared, own = normal_quantile(shared), normal_quantile(own)
        return uniform(np.sqrt(alike) * shared + np.sqrt(1.0 - alike) * own)
    return uniform(np.where(generator.random(count) < np.sqrt(alike), shared, own))
