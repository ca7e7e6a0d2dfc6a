"""Figures over ε as curves in SVG, drawn here: the page needs neither scripts nor another file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

#: Okabe and Ito's colours without yellow, told apart by colour-blind readers; then dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#6b7280")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 260, 52, 12, 12, 34


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve.

    Attributes:
        name: For the legend.
        points: ε, mean and standard deviation, ascending ε.
        printed: ε and figures that a paper has printed of the same method.
    """

    name: str
    points: Sequence[tuple[float, float, float | None]]
    printed: Sequence[tuple[float, float]] = ()


def draw(title: str, curves: Sequence[Curve], real: float | None) -> Markup:
    """Means with bars of a standard deviation over ε; the real rows' figure as a dashed line.

    Printed figures are rings. The ε axis is logarithmic; so is the other one where all
    figures are above zero and the largest is more than fifty times the least.
    """
    xs = sorted({p[0] for curve in curves for p in curve.points})
    ys = [
        v for c in curves for _, mean, sd in c.points for v in (mean - (sd or 0), mean + (sd or 0))
    ]
    ys += [value for curve in curves for _, value in curve.printed]
    ys += [real] if real is not None else []
    logarithmic = min(ys) > 0 and max(ys) / min(ys) > 50
    across = _axis([math.log(x) for x in xs], _LEFT, _WIDTH - _RIGHT)
    scaled = [math.log(y) for y in ys] if logarithmic else ys
    up = _axis(scaled, _HEIGHT - _BOTTOM, _TOP)

    def x(value: float) -> str:
        return f"{across(math.log(value)):.1f}"

    def y(value: float) -> str:
        return f"{up(math.log(max(value, 1e-12)) if logarithmic else value):.1f}"

    parts = [_frame(xs, ys, x, y, logarithmic)]
    if real is not None:
        line = Markup('<line x1="{}" x2="{}" y1="{}" y2="{}" class="real"/>')
        parts.append(line.format(_LEFT, _WIDTH - _RIGHT, y(real), y(real)))
    for number, curve in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        parts.append(_curve(curve, colour, dash, x, y))
    label = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="curve">{}</svg>')
    drawn = label.format(_WIDTH, _HEIGHT, f"{title} over ε", Markup("").join(parts))
    return drawn + _legend(curves)


def _axis(values: Sequence[float], start: float, end: float):  # type: ignore[no-untyped-def]
    low, high = min(values), max(values)
    room = (high - low) * 0.05 or 0.5
    low, high = low - room, high + room
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _frame(xs, ys, x, y, logarithmic: bool) -> Markup:  # type: ignore[no-untyped-def]
    low, high = min(ys), max(ys)
    steps = [
        low * (high / low) ** (i / 4) if logarithmic else low + (high - low) * i / 4
        for i in range(5)
    ]
    parts = []
    for value in dict.fromkeys(steps):
        line = Markup('<line x1="{0}" x2="{1}" y1="{2}" y2="{2}" class="grid"/>')
        parts.append(line.format(_LEFT, _WIDTH - _RIGHT, y(value)))
        text = Markup('<text x="{}" y="{}" text-anchor="end" dy=".35em">{}</text>')
        parts.append(text.format(_LEFT - 6, y(value), short(value)))
    for value in xs:
        text = Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>')
        parts.append(text.format(x(value), _HEIGHT - _BOTTOM + 18, f"{value:g}"))
    return Markup("").join(parts)


def _curve(curve: Curve, colour: str, dash: str, x, y) -> Markup:  # type: ignore[no-untyped-def]
    path = " ".join(f"{x(at)},{y(mean)}" for at, mean, _ in curve.points)
    line = Markup('<polyline points="{}" fill="none" stroke="{}" stroke-dasharray="{}"/>')
    dot = Markup('<circle cx="{}" cy="{}" r="3" fill="{}"><title>{}</title></circle>')
    bar = Markup('<line x1="{0}" x2="{0}" y1="{1}" y2="{2}" stroke="{3}" opacity=".5"/>')
    ring = Markup(
        '<circle cx="{}" cy="{}" r="5" fill="none" stroke="{}"><title>{}</title></circle>'
    )
    parts = [line.format(path, colour, dash)]
    for at, mean, sd in curve.points:
        parts.append(dot.format(x(at), y(mean), colour, f"{curve.name}: {short(mean)}"))
        parts += [bar.format(x(at), y(mean - sd), y(mean + sd), colour)] if sd else []
    for at, value in curve.printed:
        hint = f"{curve.name}, printed: {short(value)}"
        parts.append(ring.format(x(at), y(value), colour, hint))
    return Markup("").join(parts)


def _legend(curves: Sequence[Curve]) -> Markup:
    item = Markup('<span class="key"><i style="background:{}"></i>{}</span>')
    names = [item.format(_COLOURS[n % len(_COLOURS)], curve.name) for n, curve in enumerate(curves)]
    return Markup('<p class="quiet">{}</p>').format(Markup(" ").join(names))


def short(value: float) -> str:
    """Three or four significant digits.

    >>> short(0.91234), short(12.3456), short(123456.0), short(0.00012)
    ('0.912', '12.3', '123,456', '0.00012')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
