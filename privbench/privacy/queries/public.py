"""Public arrays as values: hashable, comparable, read-only."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray


class PublicArray:
    """A read-only int64 array of public values, equal to every array of the same content.

    >>> PublicArray([1, 2]) == PublicArray([1, 2]), PublicArray([1, 2]) == PublicArray([[1, 2]])
    (True, False)
    """

    __slots__ = ("digest", "norm", "values")

    def __init__(self, values: ArrayLike) -> None:
        array = np.array(values)
        if array.size and array.dtype.kind not in "iu":
            raise ValueError("public arrays must hold integers")
        self.values: NDArray[np.int64] = np.ascontiguousarray(array, dtype=np.int64)
        self.values.flags.writeable = False
        self.norm = float(np.abs(self.values.astype(np.float64)).sum())  # L1, in floating point
        content = hashlib.sha256(repr(self.values.shape).encode())
        content.update(self.values.data)
        self.digest = content.digest()

    @classmethod
    def rounded(cls, values: ArrayLike, scale: int) -> PublicArray:
        """Public numbers times ``scale``, rounded to integers within ±2⁶²."""
        scaled = np.nan_to_num(np.asarray(values, dtype=np.float64) * scale)
        return cls(np.rint(np.clip(scaled, -(2.0**62), 2.0**62)).astype(np.int64))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicArray) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"PublicArray(shape={self.shape}, {self.digest.hex()})"
