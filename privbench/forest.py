"""Find cycles among references of a table to itself, so that no row is its own ancestor."""

import numpy as np

from privbench.arrays import Ints


def circle_heads(parents: Ints) -> Ints:
    """Return the first row of every cycle of references, in ascending order.

    A row that is its own parent is a cycle too. If these rows refer to nothing, every row has a
    root as its ancestor. ``parents`` are row numbers, negative for none; shape (rows,).

    >>> circle_heads(np.array([-1, 0, 3, 4, 2, 2, 6])).tolist()
    [2, 6]
    """
    rows = len(parents)
    # One more row, its own parent, stands above all roots.
    above = np.append(np.where(parents >= 0, parents, rows), rows)
    lowest = np.arange(rows + 1)
    for _ in range(rows.bit_length()):
        # Every round doubles the number of generations that are passed.
        lowest = np.minimum(lowest, lowest[above])
        above = above[above]
    # After so many generations, only rows on circles and the row above all roots are reached.
    circles = np.unique(above[:rows])
    heads: Ints = circles[(circles < rows) & (lowest[circles] == circles)]
    return heads
