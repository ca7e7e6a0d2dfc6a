"""Laws over numbers of references, from interpolated histograms of fan-in."""

from __future__ import annotations

import numpy as np
from scipy.optimize import lsq_linear

from privbench.learning.denoise import Floats, last_clear
from privbench.learning.fanfamily import buckets, posterior
from privbench.learning.fanlaw import FanLaw, law_from_counts
from privbench.privacy import DatabaseSpec, Query
from privbench.privacy.queries import FAN_OUT_BOUNDS, FanIn
from privbench.privacy.queries.fanin import levels

#: Weights of targets that are referred to, against those of other rows; likely as they are near 1.
SHADES = 2.0 ** np.array([0.0, 0.5, 1.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -5.0, -6.0])
#: How far a bucket may be off beside its noise where rows weigh differently: targets of few
#: references may weigh more, or less, than those of many.
_UNEVEN = 0.05
#: How far the number of references that are kept may be off, if rows tell it.
OFF = 0.1
#: How much likelier even references are beforehand (`posterior`), and targets against noise below
#: which a bucket tells nothing by itself.
_EVEN, _LOST = 1.0, 40.0
#: Targets of which half of those that would else have no references have some.
_ALL_USED = 6.0
_STARTS, _ENDS = buckets(FAN_OUT_BOUNDS)


def fit_fan_in(
    query: Query,
    spec: DatabaseSpec,
    noisy: Floats,
    sd: float,
    size: tuple[float, float],
    kept: tuple[float, float],
    most: float,
    shades: Floats,
) -> FanLaw:
    """Deconvolve an interpolated histogram (P21) into a law over numbers of references.

    Non-negative least squares over octaves of counts: the released buckets at their precision, the
    number of targets, the number of references that are kept, and within its own size a prior: the
    posterior mean of a family of laws, since hubs are too few to be seen in any one bucket. Targets
    may weigh less than other rows (a few people may own all of them), or more, so that fewer or
    more are seen than there are.

    Args:
        query: The fan-in query.
        spec: What is public.
        noisy: Its noisy buckets, shape (buckets,).
        sd: Standard deviation of their noise.
        size: Number of targets, and their weight.
        kept: Number of references that are kept, and its standard deviation.
        most: Number of references to give out. No target has more: such a bucket would, once drawn,
            take most references of all.
        shades: Factors on what a target weighs, if that is uncertain; a single one if rows weigh
            alike.
    """
    if not isinstance(query, FanIn):
        raise TypeError("a fan-in law is fitted to a fan-in query")
    targets, weight = size
    design = _interpolation(query.scale(spec), query.buckets) * (weight / targets)
    linked, off = kept[0], max(kept[1], 1.0)
    # Shapes are weighed at one scale: a mixture of small laws and large ones would have hubs.
    goal = (linked, np.inf, min(off, OFF * linked))
    # Buckets in units of how far they may be off, times ``sd``.
    surely = sd / np.hypot(sd, _UNEVEN * noisy * (len(shades) > 1))
    noisy, design = noisy * surely, design * surely[:, None]
    told = (shades, -np.abs(np.log(shades)))
    law, shade = posterior(noisy, sd, _STARTS, _ENDS, targets, goal, design, told, _EVEN)
    prior, design = targets * law, shade * design
    # Of few targets none is left out, unless that is seen: of two shops each has staff.
    prior[0] *= targets / (targets + _ALL_USED)
    prior *= targets / prior.sum()
    centre = np.sqrt(np.maximum(_STARTS, 0) * np.maximum(_ENDS, 0).astype(float))
    # Hubs are few against the noise: what a bucket may hold beyond the prior falls with its size.
    # Where the targets themselves are lost in noise, nothing is held beyond it.
    far = min(sd, weight * weight / (_LOST * sd))
    loose = np.maximum(prior, far * np.minimum(1.0, linked / targets / np.maximum(centre, 1.0)))
    # A bucket that stands out far beyond the others is noise.
    reach = np.arange(len(noisy)) < last_clear(np.append(0.0, noisy), sd)
    clear = design.T @ np.where(reach, np.maximum(noisy - 2 * sd, 0.0), 0.0)
    loose = np.maximum(np.maximum(loose, clear), 1e-3)
    rows = np.vstack(
        [
            design / sd,
            np.ones((1, len(_STARTS))) * 1e3 / targets,
            centre[None, :] / off,
            np.diag(1.0 / loose),
        ]
    )
    sides = np.concatenate([noisy / sd, [1e3], [linked / off], prior / loose])
    # In units of the prior all unknowns are near 1, whatever the size of the tables.
    few = max(1, int(np.searchsorted(_STARTS, most, side="right")))
    counts = np.zeros(len(_STARTS))
    counts[:few] = lsq_linear((rows * loose)[:, :few], sides, bounds=(0.0, np.inf)).x * loose[:few]
    prior[few:] = 0.0
    return law_from_counts(counts if counts.sum() > 0 else prior, _STARTS, _ENDS)


def _interpolation(scale: int, buckets: int) -> Floats:
    """How much a target of every octave of counts adds to every released bucket, on average."""
    whole, part = levels(scale, buckets)
    design = np.zeros((buckets, len(_STARTS)))
    for octave, (first, last) in enumerate(zip(_STARTS, _ENDS, strict=True)):
        counts = np.unique(np.linspace(first, last, 64).astype(np.int64))
        m = np.minimum(counts, len(whole) - 1)
        upper = part[m] / 2**30
        for cell, weight in ((whole[m], 1 - upper), (whole[m] + 1, upper)):
            inside = (cell >= 1) & (cell <= buckets)
            np.add.at(design[:, octave], cell[inside] - 1, weight[inside] / len(counts))
    return design
