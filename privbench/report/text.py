"""Format numbers for people."""

import math
from collections.abc import Sequence


def number(value: float | None) -> str:
    """Return a number with three significant digits and thousands separators; a dash for None.

    >>> number(1234567), number(3.14159), number(0.000123), number(None), number(2.0)
    ('1,234,567', '3.14', '0.000123', '–', '2')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == int(value) or abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.3g}"


def seconds(value: float | None) -> str:
    """Return a run time in a suitable unit.

    >>> seconds(0.00042), seconds(0.25), seconds(61.2), seconds(None)
    ('0.42 ms', '250 ms', '61.2 s', '–')
    """
    if value is None:
        return "–"
    return f"{number(1000 * value)} ms" if value < 1 else f"{number(value)} s"


def percent(value: float | None) -> str:
    """Return a share as per cent.

    >>> percent(0.1234), percent(0)
    ('12.3 %', '0 %')
    """
    return per_cent(None if value is None else 100 * value)


def per_cent(value: float | None) -> str:
    """Return a figure that is in per cent already with its sign.

    >>> per_cent(12.34), per_cent(None)
    ('12.3 %', '–')
    """
    return "–" if value is None else f"{number(value)} %"


def share(value: float | None) -> str:
    """Return a share as per cent, with two digits below 10 %.

    >>> share(0.01234), share(0.5)
    ('1.2 %', '50 %')
    """
    return percent(value) if value is None or value >= 0.1 else f"{100 * value:.2g} %"


def difference(now: float, before: float) -> str:
    """Return how much larger or smaller a number is than an earlier one, in per cent.

    >>> difference(90, 100), difference(1, 0)
    ('-10 %', '–')
    """
    return percent((now - before) / before) if before else "–"


def coefficient(value: float | None) -> str:
    """Return a coefficient with two decimals, without a minus before zero.

    >>> coefficient(-0.001), coefficient(0.456), coefficient(None)
    ('0.00', '0.46', '–')
    """
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}"


def less(value: float | None, other: float | None) -> str:
    """Return the difference of two coefficients; a dash if one is missing.

    >>> less(0.5, 0.25), less(None, 0.25)
    ('0.25', '–')
    """
    return coefficient(None if value is None or other is None else value - other)


def joins(number: str) -> str:
    """Return a number of joins in words.

    >>> joins("0"), joins("1"), joins("12"), joins("?")
    ('one table', '1 join', '12 joins', 'joins unknown')
    """
    return {"?": "joins unknown", "0": "one table", "1": "1 join"}.get(number, f"{number} joins")


def few(names: Sequence[str], shown: int = 5) -> str:
    """Return the first of some names, and how many more there are.

    >>> few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more:,} more" if more > 0 else "")
