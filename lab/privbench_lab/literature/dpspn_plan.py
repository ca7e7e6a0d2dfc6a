"""Parameters of a private sum-product network, and how its budget is divided: all of it public.

In the paper every call gets ε/t of the budget, whether it is made or not. Here the number of levels
is fixed before the first split, from the noisy size of the table, so that no budget is left unused.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2
from typing import Annotated, Literal

from pydantic import Field

from privbench.privacy import DatabaseSpec, noise_sd
from privbench.privacy.queries import Histogram, Joint
from privbench.synthesizers.base import Options, PlanInput

#: Fewest rows of a region that is split, in standard deviations of the noise that the whole amount
#: would leave on one histogram of each column. Measured on nltcs, adult and bank: half or double
#: costs .02 in log-likelihood and less than .01 in AUROC.
LEAST = 10.0
#: If that noise is more than this many times the table's rows, nothing can be learned but that the
#: table is small, and columns are measured once. It is far above 1, since its only purpose is to
#: keep shares of shares of a tiny budget within what noise can be drawn for.
HOPELESS = 100.0
#: Shares of the amount for histograms of whole columns, for the label, and for k-means; leaves get
#: the rest. The first are for bins and priors; halving or doubling any of them moves nltcs by less
#: than .02.
ONE_WAYS, LABEL, STRUCTURE = 0.1, 0.02, 0.3
#: Labels of events: of the classes' counts, of one iteration of k-means, of all leaves.
CLASSES, LEAVES = "classes of {table}", "leaves of {table}"
MOVE = "k-means {step} on level {level} of {table}"


class DpspnOptions(Options):
    """Parameters, in the paper's letters where it has them."""

    # The class: the root is a sum node over its values, with one network below each (the paper's
    # Algorithm 2). Empty, and in tables without such a column: Algorithm 1.
    label: str = ""
    # ``none``: rows are split alone; ``random``: after each split of rows the columns are split at
    # random.
    columns: Literal["none", "random"] = "none"
    # η as a part of the table's rows: a region with fewer rows is not split. 0 lets the noise
    # decide (0.5 with ``as_published``).
    eta: Annotated[float, Field(ge=0, le=1)] = 0.0
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5  # α: chance that a split of columns fails
    # t: most calls that spend budget on one row; at most t − 1 levels.
    calls: Annotated[int, Field(ge=1, le=20)] = 10
    iterations: Annotated[int, Field(ge=1, le=20)] = 2  # iterations of k-means in a split of rows
    bins: Annotated[int, Field(ge=2, le=64)] = 16  # most bins of an attribute inside regions
    # Rows that are added to every leaf's histogram, spread over its bins.
    smoothing: Annotated[float, Field(ge=0)] = 1.0
    # The paper's own accounting, which is broken: for comparison alone, in a fit that is stamped
    # NOT PRIVATE.
    as_published: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """Amounts of one table."""

    one_ways: float  # all histograms of whole columns
    label: float  # counts of the classes, 0 without a label
    levels: int  # number of levels of row splits
    move: float  # one measurement of k-means; there are `rounds` on every level
    rounds: int  # iterations of k-means
    leaves: float  # histograms of all leaves; 0 leaves every column by itself
    least: float  # a region of fewer than twice as many rows is not split


def divide(
    spec: DatabaseSpec, table: str, amount: float, plan: PlanInput, options: DpspnOptions
) -> Budget:
    """The division of a table's amount, ε or ρ, by noisy sizes; reads no rows."""
    names = list(spec.tables[table].attributes)
    labelled = options.label in names
    columns = len(names) - labelled
    rows = min(plan.rows(table), plan.rows(spec.top(table)))
    each = Joint(tuple(Histogram.of(spec, table, [name]) for name in names))
    noise = noise_sd(each, spec, amount, plan.accounting)
    least = max(options.eta * rows / 2, LEAST * noise, 1.0)
    if options.as_published:
        least = (options.eta or 0.5) * rows / 2
        call = amount / options.calls
        levels = options.calls - 1 - labelled if columns > 1 else 0
        label = call if labelled else 0.0
        # Exact sizes are charged next to nothing, as the paper charges nothing for them.
        tiny, move = amount * 1e-6, call / options.iterations
        leaves = call - 2 * options.calls * tiny
        return Budget(tiny, label, levels, move, options.iterations, leaves, least)
    if noise > HOPELESS * rows:
        return Budget(amount, 0.0, 0, 0.0, options.iterations, 0.0, least)
    deepest = floor(log2(max(rows / least, 1.0)))
    levels = min(options.calls - 1, deepest) if columns > 1 else 0
    one_ways, label = ONE_WAYS * amount, LABEL * amount if labelled else 0.0
    structure = STRUCTURE * amount if levels else 0.0
    move = structure / (levels * options.iterations) if levels else 0.0
    leaves = amount - one_ways - label - structure
    return Budget(one_ways, label, levels, move, options.iterations, leaves, least)
