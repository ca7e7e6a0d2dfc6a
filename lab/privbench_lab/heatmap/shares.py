"""The share of the values of every cell of a codec that lies in some spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privbench.encoding import Codec
from privbench.encoding.categories import ListCodec
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.scale import GREATEST, LEAST, scale_of
from privbench.encoding.text import TextCodec

Floats = NDArray[np.float64]
#: Half-open intervals of grid points, or of positions in a list; ascending and disjoint.
Spans = Sequence[tuple[int, int]]
#: The start and the end of a span that is unbounded on that side.
FIRST: Final = -(2**63)
END: Final = 2**63


def shares(codec: Codec, spans: Spans, *, null: bool) -> Floats | None:
    """For every code, the share of the values drawn in its cell that lies in the spans.

    Spans hold points of the type's grid; for labels, and for lists without a grid, they hold
    positions in the list. ``null`` says whether NULL counts as inside. The shape is (domain
    size,), each share is 0 to 1; None for a codec without a grid, a list or labels, and for
    distances from another column.
    """
    match codec:
        case OrderedCodec(since=""):
            result = _of_cells(codec, spans)
        case ListCodec():
            result = _of_list(codec, spans)
        case TextCodec(labels=tuple() as labels, begun=False):
            inside = _inside(np.arange(len(labels) + 1), spans)
            result = np.full(codec.domains[codec.column].size, inside[-1])
            result[: len(labels)] = inside[:-1]
        case _:
            return None
    code = codec.domains[codec.column].null_code
    if code is not None:
        result[code] = float(null)
    return result


def _of_cells(codec: OrderedCodec, spans: Spans) -> Floats:
    scale, domain = codec.scale, codec.recoding.domain
    lows, highs = codec.cells()
    inside = np.zeros(len(lows))
    for first, end in spans:
        low = np.clip(lows, max(first, LEAST), None)
        high = np.clip(highs, None, min(end, GREATEST))
        inside += scale.mass(low, np.maximum(low, high), lows, highs)
    whole = scale.mass(lows, highs, lows, highs)
    result = np.divide(inside, whole, out=np.zeros(len(lows)), where=whole > 0)
    # PostgreSQL sorts NaN after all numbers.
    ends = {"-inf": FIRST, "inf": END, "nan": END}
    for name in domain.specials:
        if name in scale.specials:
            result[domain.special_code(name)] = any(ends[name] in span for span in spans)
    return np.clip(result, 0.0, 1.0)


def _of_list(codec: ListCodec, spans: Spans) -> Floats:
    """The share of every cell; ``other`` has the share of the whole list."""
    scale, places = scale_of(codec.type), np.arange(len(codec.values))
    if scale is not None:
        places[:] = [scale.parse(text) for text in codec.values]
    inside = _inside(places, spans)
    result = np.full(codec.domains[codec.column].size, inside.mean() if len(inside) else 0.0)
    result[: len(inside)] = inside
    return result


def _inside(places: NDArray[np.int64], spans: Spans) -> Floats:
    """Give 1 for every position that lies in a span, and 0 for all others."""
    result = np.zeros(len(places))
    for first, end in spans:
        result[(places >= first) & (places <= end - 1)] = 1.0
    return result
