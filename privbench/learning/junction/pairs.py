"""From a noisy pair table to one that could be, in steps; post-processing, free of charge.

What is predicted is bent as all cells together say, by few parameters at a time; then every cell
follows its own noisy count as far as that stands out. Cells that are ruled out stay all but empty
through all of it: none of the later steps sees them in the noise, and each would on average put
something there, most of all where the largest values meet, in the rows that queries ask for.
"""

from __future__ import annotations

import numpy as np

from privbench.learning.denoise import Floats, Noise
from privbench.learning.junction.copulas import expected
from privbench.learning.junction.implied import Ints, implied, ruled_out
from privbench.learning.junction.ratios import rake, shrink
from privbench.learning.junction.tails import bent
from privbench.learning.junction.trends import trended

#: What a cell that is ruled out holds, of what independence would put there; and a noisy count that
#: is clearly more than nothing, in noise scales.
_LEFT, _CLEAR = 1e-3, 6.0


def related(
    noisy: Floats,
    predicted: Floats,
    margins: tuple[Floats, Floats],
    scale: float,
    noise: Noise,
    blocks: tuple[Ints, Ints],
    ordered: tuple[int, int],
) -> Floats:
    """Counts of a pair of variables of tables that hang together.

    Args:
        noisy: Noisy counts, shape (first's bins, second's bins).
        predicted: Predicted counts, above 0.
        margins: Known sums over the second and over the first axis; the result is raked to them.
        scale: Scale of the noise.
        noise: Law of the noise.
        blocks: Block of every bin of both variables.
        ordered: How many leading bins of each variable follow an order.
    """
    first, second = margins
    empty = ruled_out(noisy, margins, scale, noise, blocks) & (noisy < _CLEAR * scale)
    most = np.where(empty, _LEFT * np.outer(first, second) / max(first.sum(), 1e-300), np.inf)
    base = rake(np.minimum(implied(noisy, predicted, scale, noise, blocks), most), *margins, 8)
    base = expected(noisy, base, scale, noise, ordered)
    base = np.minimum(bent(trended(noisy, base, scale, noise, ordered), scale, ordered), most)
    return np.minimum(shrink(noisy, base, scale, noise), most)
