"""Type aliases of NumPy arrays that many modules use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
AnyInts = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
Rng = np.random.Generator
