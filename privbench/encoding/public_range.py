"""Public ranges of columns on a grid: what CHECK constraints, the config and the type say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privbench.config import ColumnConfig
from privbench.encoding.base import literal
from privbench.encoding.checks import Limits
from privbench.encoding.scale import Scale
from privbench.errors import ConfigError
from privbench.schema import Column

#: A CHECK's range of more grid steps than this is a limit alone.
CLOSE = 512


@dataclass(frozen=True, slots=True)
class Range:
    """Public knowledge of a column's range, on its grid, both ends inclusive.

    Attributes:
        lo: Least grid point.
        hi: Greatest grid point.
        settled: Whether nothing need be released: the config declares an end and both are known,
            or a CHECK leaves few values.
        specials: Special cells that remain possible.
    """

    lo: int
    hi: int
    settled: bool
    specials: tuple[str, ...]


def public_range(
    table: str, column: Column, scale: Scale, config: ColumnConfig, limits: Sequence[Limits]
) -> Range:
    """What CHECK constraints, the config and the type say of a column's range.

    Raises:
        ConfigError: The config's bounds are not literals of the type, or leave no value.
    """
    lo, hi = scale.limits
    low_known = high_known = False
    for item in limits:
        low, high = _low_end(scale, item), _high_end(scale, item)
        if low is not None:
            lo, low_known = max(lo, low), True
        if high is not None:
            hi, high_known = min(hi, high), True
    gone = ({"-inf"} if low_known else set()) | ({"nan", "inf"} if high_known else set())
    specials = tuple(name for name in scale.specials if name not in gone)
    if config.min is not None:
        lo, low_known = max(lo, _config_end(table, column, scale, config.min)), True
    if config.max is not None:
        hi, high_known = min(hi, _config_end(table, column, scale, config.max)), True
    if lo > hi:
        raise ConfigError(
            "the range holds no value.",
            table=table,
            column=column.name,
            remedy="Check min, max and the CHECK constraints.",
        )
    declared = config.min is not None or config.max is not None
    # A CHECK's wide range is a limit; rows mostly lie in a small part of it (`discount` in 0 to 1).
    told = low_known and high_known and (declared or hi - lo < CLOSE)
    settled = told or not scale.open_range
    if settled:
        specials = tuple(name for name in specials if name == "nan")
    return Range(lo, hi, settled, specials)


def _low_end(scale: Scale, item: Limits) -> int | None:
    """A CHECK's lower bound; one that is not a literal of the type is no knowledge."""
    try:
        if item.low is None:
            return None
        return scale.parse(item.low) + 1 if item.low_open else scale.parse_up(item.low)
    except ValueError:
        return None


def _high_end(scale: Scale, item: Limits) -> int | None:
    """A CHECK's upper bound, likewise."""
    try:
        if item.high is None:
            return None
        return scale.parse_up(item.high) - 1 if item.high_open else scale.parse(item.high)
    except ValueError:
        return None


def _config_end(table: str, column: Column, scale: Scale, value: Any) -> int:
    try:
        return scale.parse(literal(value))
    except ValueError:
        raise ConfigError(
            f"{literal(value)!r} is not a value of type {column.type.sql}.",
            table=table,
            column=column.name,
            remedy="Correct min or max.",
        ) from None
