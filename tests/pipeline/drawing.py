"""Prints hashes: of the functions by which rows are drawn, or of all rows that a model gives.

``drawing.py [MODEL SCALE JOBS]``, run in a process of its own.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np

from privbench import pipeline
from privbench.encoding.floats import rounded_to
from privbench.learning import portable
from privbench.learning.graphical.joint_degrees import JointDegrees
from privbench.learning.graphical.references import ReferenceLaw
from privbench.learning.graphical.sets import counted, presences
from privbench.learning.graphical.sizes import MANY
from privbench.learning.graphical.tilting import Tilt, weights_of
from privbench.rng import generator
from privbench.threads import JOBS

ROWS = 2**16


def of_functions():
    """Names and results."""
    random = generator(1, "functions")
    shares, cells = random.random(ROWS), random.integers(9, size=ROWS)
    yield "log", portable.log(shares)
    yield "exp", portable.exp(-30.0 * shares)
    yield "normal_quantile", portable.normal_quantile(shares)
    yield "rounded_to", rounded_to(1e3 * shares, np.ldexp(shares, -random.integers(130, size=ROWS)))
    yield "MANY.law", MANY.law(shares[: MANY.size])
    yield "presences", presences(counted(cells, 9, np.sort(random.integers(9999, size=ROWS))), -0.5)
    tilt = Tilt((0,), (np.arange(9),), 6.0 * random.random(9) - 3.0)
    yield "weights_of", weights_of([tilt], {0: cells}, ROWS)
    fan_in = shares[: MANY.size] / shares[: MANY.size].sum()
    yield "popularity", ReferenceLaw(fan_in).popularity({}, shares)
    root = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.2, 0.5, 0.8]])
    degrees = {place: np.minimum(cells, place + 3) for place in range(3)}
    yield from JointDegrees((0, 1, 2), root, root).joined(degrees, random).items()


def of_rows(model, scale, jobs):
    """Names and contents of the files."""
    JOBS.set(int(jobs))
    with tempfile.TemporaryDirectory() as folder:
        pipeline.sample(model, folder, scale=float(scale), seed=5)
        for path in sorted(Path(folder).iterdir()):
            yield path.name, path.read_bytes()


if __name__ == "__main__":
    for name, data in of_rows(*sys.argv[1:]) if sys.argv[1:] else of_functions():
        print(name, hashlib.sha256(data).hexdigest())
