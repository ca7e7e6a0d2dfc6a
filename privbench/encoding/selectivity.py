"""The share of a code's cell that satisfies a condition, as the codec draws values in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privbench.encoding.base import Codec
from privbench.encoding.categories import ListCodec
from privbench.encoding.datetimes import Clock
from privbench.encoding.floats import FloatScale
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.scale import GREATEST, LEAST, Points, Scale, scale_of
from privbench.encoding.text import TextCodec

Floats = NDArray[np.float64]
#: Half-open runs of grid points, or of places in a list, ascending and disjoint.
Spans = Sequence[tuple[int, int]]

#: Ends of a span that is not bounded.
FIRST: Final = -(2**63)
END: Final = 2**63

_SECOND = 1_000_000


def listed(codec: Codec) -> tuple[str, ...] | None:
    """The values that a column's first codes stand for: a declared list, or released labels."""
    if isinstance(codec, ListCodec):
        return codec.values
    return codec.labels if isinstance(codec, TextCodec) else None


def shares(codec: Codec, spans: Spans, null: bool) -> Floats | None:
    """The share of every code's cell that lies in the spans.

    Args:
        codec: The column's.
        spans: On the type's grid; of a list or labels without a grid, places among them.
        null: Whether NULL satisfies the condition.

    Returns:
        Shape (domain size,), 0 to 1: what the model's value of each code satisfies; None for a
        codec without a grid, a list or labels.
    """
    if isinstance(codec, OrderedCodec):
        result = _ordered(codec, spans)
    elif listed(codec) is not None:
        result = _listed(codec, spans)
    else:
        return None
    code = codec.domains[codec.column].null_code
    if code is not None:
        result[code] = float(null)
    return result


def _listed(codec: Codec, spans: Spans) -> Floats:
    """Listed values; ``other`` is drawn from a declared list, and is no label."""
    domain, values = codec.domains[codec.column], listed(codec) or ()
    scale = scale_of(codec.type) if isinstance(codec, ListCodec) else None
    places = np.arange(len(values) + 1)
    if scale is not None:
        places[:-1] = [scale.parse(text) for text in values]
    inside = np.zeros(len(places))
    for first, end in spans:
        inside[(places >= first) & (places <= end - 1)] = 1.0
    if isinstance(codec, ListCodec):
        inside[-1] = inside[:-1].mean() if values else 0.0
    result = np.full(domain.size, inside[-1])
    result[: domain.values] = inside[:-1]
    return result


def _ordered(codec: OrderedCodec, spans: Spans) -> Floats:
    scale = codec.scale
    lows, highs = codec.cells()
    inside = np.zeros(len(lows))
    for first, end in spans:
        low = np.clip(lows, max(first, LEAST), None)
        high = np.clip(highs, None, min(end, GREATEST))
        inside += _mass(scale, low, np.maximum(low, high), lows, highs)
    whole = _mass(scale, lows, highs, lows, highs)
    result = np.divide(inside, whole, out=np.zeros(len(lows)), where=whole > 0)
    domain = codec.domains[codec.column]
    ends = {"-inf": FIRST, "inf": END, "nan": END}
    for name in domain.specials:
        if name in scale.specials:
            # PostgreSQL sorts NaN after all numbers.
            result[domain.special_code(name)] = any(ends[name] in span for span in spans)
    return np.clip(result, 0.0, 1.0)


def _mass(scale: Scale, low: Points, high: Points, lows: Points, highs: Points) -> Floats:
    """How much of what is drawn in each cell ``[lows, highs)`` falls in ``[low, high)``."""
    if isinstance(scale, FloatScale):
        return scale.mass(low, high, lows, highs)
    unit = np.full(len(lows), scale.step)
    if isinstance(scale, Clock):
        # Whole seconds are drawn, where a cell holds one.
        unit = np.where(-(-highs // _SECOND) > -(-lows // _SECOND), _SECOND, unit)
    unit = np.where(-(-highs // unit) > -(-lows // unit), unit, 1)
    return np.asarray(-(-high // unit) - -(-low // unit), dtype=np.float64)
