"""Strings from matrices and numbers; what the makers of text share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Base types of text.
TEXT_BASES = ("text", "varchar", "bpchar", "name", "citext")

_BASE36 = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


def fixed_width(characters: NDArray[np.uint8]) -> pa.Array:
    """Strings from a matrix of ASCII codes, shape (rows, width)."""
    rows, width = characters.shape
    offsets = (np.arange(rows + 1, dtype=np.int64) * width).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(characters.tobytes())]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def digits(numbers: NDArray[np.int64], width: int, base: int = 36) -> pa.Array:
    """Numbers below ``base ** width`` as digits, filled up with zeros.

    >>> digits(np.array([1, 40]), 3).to_pylist()
    ['001', '014']
    """
    places = np.empty((len(numbers), width), dtype=np.int64)
    left = numbers.copy()
    for place in range(width - 1, -1, -1):
        left, places[:, place] = np.divmod(left, base)
    return fixed_width(np.ascontiguousarray(_BASE36[places]))


def decimal(numbers: NDArray[np.int64]) -> pa.Array:
    """Numbers as people write them."""
    return pa.array(numbers, pa.int64()).cast(pa.string())


def joined(*pieces: pa.Array | str) -> pa.Array:
    """Arrays of strings and constants, one after another, row by row.

    >>> joined("(", pa.array(["a", "b"]), ")").to_pylist()
    ['(a)', '(b)']
    """
    whole: Any = [pa.scalar(piece) if isinstance(piece, str) else piece for piece in pieces]
    return pc.binary_join_element_wise(*whole, "")


def quoted(texts: pa.Array) -> pa.Array:
    r"""Texts as elements of an array, range or composite literal.

    >>> quoted(pa.array(['a"b'])).to_pylist()
    ['"a\\"b"']
    """
    escaped = pc.replace_substring(texts, "\\", "\\\\")
    return joined('"', pc.replace_substring(escaped, '"', '\\"'), '"')
