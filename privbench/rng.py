"""The random number generators for sampling synthetic rows.

What is drawn here never touches private rows: noise for measurements comes from OpenDP (see
``privbench.privacy``), sampling from a released model is post-processing and may be seeded.
"""

import zlib

import numpy as np

from privbench.arrays import Rng


def generator(seed: int | None, *labels: str | int) -> Rng:
    """Return a PCG64 generator for one purpose, independent of the generators for other purposes.

    The seed is public; None takes fresh entropy of the operating system. Labels name the purpose (a
    table, a column, a chunk): different lists of labels give independent streams.

    >>> bool((generator(7, "a").integers(9, size=4) == generator(7, "a").integers(9, size=4)).all())
    True
    """
    if seed is None:
        return np.random.Generator(np.random.PCG64())
    words = [zlib.crc32(str(label).encode()) for label in labels]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=words)))
