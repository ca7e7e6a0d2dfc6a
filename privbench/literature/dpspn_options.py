"""Public parameters of the differentially private sum-product network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from privbench.synthesizers.base import Options


class DpspnOptions(Options):
    """Parameters, in the paper's letters where it has them.

    Attributes:
        label: The class: the root is a sum node over its values, with one network below each
            (the paper's Algorithm 2). Empty, and in tables without such a column: Algorithm 1.
        columns: ``none``: rows are split alone; ``random``: after each split of rows the columns
            are split at random.
        eta: η as a part of the table's rows: a region with fewer rows is not split. 0 lets the
            noise decide (0.5 with ``as_published``).
        alpha: α: chance that a random split of columns fails.
        calls: t: most calls that spend budget on one row; at most t − 1 levels.
        iterations: Iterations of k-means in a split of rows.
        bins: Most bins of an attribute inside regions.
        smoothing: Rows that are added to every leaf's histogram, spread over its bins.
        as_published: The paper's own accounting, which is broken: for comparison alone, in a fit
            that is stamped NOT PRIVATE.
    """

    label: str = ""
    columns: Literal["none", "random"] = "none"
    eta: Annotated[float, Field(ge=0, le=1)] = 0.0
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    calls: Annotated[int, Field(ge=1, le=20)] = 10
    iterations: Annotated[int, Field(ge=1, le=20)] = 2
    bins: Annotated[int, Field(ge=2, le=64)] = 16
    smoothing: Annotated[float, Field(ge=0)] = 1.0
    as_published: bool = False
