"""What a fit releases of a column with a grid, from its rows."""

from __future__ import annotations

import numpy as np

from privbench.encoding import BoundsNeed, Decimals, DecimalsNeed
from privbench.learning.ranges import cut, find_decimals, find_range
from privbench.privacy.recoding import NEG_INF, POS_INF


def released_by(needs, raw, sd, rng, cells):
    """Bounds and decimals by attribute, of Laplace noise on histograms of all candidates.

    Args:
        needs: What the reader needs.
        raw: Grid points by attribute.
        sd: Standard deviation of the noise.
        rng: Draws it.
        cells: Cells of a range that are worth telling apart.
    """
    given = {}
    for need in needs:
        values = raw[need.attribute]
        values = values[(values > NEG_INF) & (values < POS_INF)]
        places = np.searchsorted(need.candidates, values, side="right")
        counts = np.bincount(places, minlength=len(need.candidates) + 1)
        noisy = counts + rng.laplace(0, sd / np.sqrt(2), len(counts))
        if isinstance(need, BoundsNeed):
            ends = find_range(noisy, sd)
            given[need.attribute] = need.between(*ends, cut(noisy, sd, *ends, cells), cells)
        else:
            assert isinstance(need, DecimalsNeed)
            place = find_decimals(noisy, sd, need.told.index(need.usual))
            given[need.attribute] = Decimals(None if place is None else need.told[place])
    return given
