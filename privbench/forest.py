"""References of a table to itself, as a forest: no row is its own ancestor."""

import numpy as np

from privbench.arrays import Ints


def circle_heads(parents: Ints) -> Ints:
    """The first row of every circle of references; rows that are their own parents are circles too.

    The rows are in ascending order; once they refer to nothing, every row has a root above it.
    Parents are row numbers, negative for none; shape (rows,).

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
    found: Ints = circles[(circles < rows) & (lowest[circles] == circles)]
    return found
