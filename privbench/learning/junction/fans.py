"""Joint laws of two numbers of children of the same owner.

Owners with many children of one kind tend to have many of another. Products of both, which joins
count, are ruled by a few owners whose cells are lost in noise one by one. So a noisy
joint histogram is drawn toward a copula with the known margins, Gaussian or Gumbel's (whose
largest values go together), whose parameter all cells tell together.
"""

from __future__ import annotations

from privbench.learning.denoise import Floats, Noise, scale_of
from privbench.learning.junction.copulas import family, likeliest
from privbench.learning.junction.ratios import rake, shrink

_SWEEPS = 30


def joint_law(noisy: Floats, sd: float, first: Floats, second: Floats, noise: Noise) -> Floats:
    """Counts of owners by both buckets.

    Args:
        noisy: Noisy counts, shape (first's buckets, second's buckets).
        sd: Standard deviation of the noise.
        first: Released counts of the first's buckets.
        second: Those of the second's, of the same sum.
        noise: Law of the noise.

    Returns:
        Counts with these margins.
    """
    scale = max(scale_of(sd, noise), 1e-9)
    prediction = likeliest(noisy, family(first, second), scale, noise)
    found = shrink(noisy, prediction, scale, noise)
    return rake(found, first, second, _SWEEPS)
