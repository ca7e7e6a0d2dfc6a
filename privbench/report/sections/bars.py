"""Small bar charts of shares on both sides, drawn as SVG so that they print."""

from collections.abc import Callable, Sequence

#: Size of a chart's plot area in SVG units.
WIDTH, HEIGHT = 300.0, 96.0
# Most cells that are wide enough for two bars; and most that are wide enough for a label each.
_PAIRED, _LABELLED = 16, 7


#: A label under the chart: where, how it is aligned, and its text.
Tick = tuple[float, str, str]


def bars(
    labels: Sequence[str],
    real: Sequence[float],
    clone: Sequence[float],
    height: Callable[[float], float],
    ends: tuple[str, str],
    ticks: list[Tick] | None = None,
) -> dict[str, object]:
    """Return a chart of each cell's shares on both sides; `height` maps a share to [0, 1].

    `ticks` are labels under the chart; with them each cell has two bars. By default each cell has a
    label and two bars; if there is no room, only the ends are labelled and the clone is a line.
    `ends` are the labels of the upper and the lower edge.
    """
    two = ticks is not None or len(labels) <= _PAIRED
    cell = WIDTH / max(len(labels), 1)
    gap = 0.08 * cell if two else 0.0
    width = (cell - 2 * gap) / (2 if two else 1)
    heights = [[HEIGHT * height(share) for share in side] for side in (real, clone)]
    left = [i * cell + gap for i in range(len(labels))]
    beside = [x + width for x in left]
    return {
        "real": _rectangles(left, heights[0], width),
        "clone": _rectangles(beside, heights[1], width) if two else _step(heights[1], cell),
        "line": not two,
        "ticks": _ticks(labels) if ticks is None else ticks,
        "cell": round(cell, 3),
        "ends": ends,
        "width": WIDTH,
        "height": HEIGHT,
    }


def _rectangles(left: Sequence[float], heights: Sequence[float], width: float) -> str:
    return "".join(
        f"M{x:.4g} {HEIGHT:g}v{-y:.3g}h{width:.4g}v{y:.3g}z"
        for x, y in zip(left, heights, strict=True)
        if y > 0
    )


def _step(heights: Sequence[float], cell: float) -> str:
    steps = "".join(f"V{HEIGHT - y:.4g}H{(i + 1) * cell:.4g}" for i, y in enumerate(heights))
    return f"M0 {HEIGHT:g}{steps}V{HEIGHT:g}"


def _ticks(labels: Sequence[str]) -> list[Tick]:
    if not labels:
        return []
    if len(labels) <= _LABELLED:
        width = WIDTH / len(labels)
        room = max(3, int(width / 6))
        return [
            (round((i + 0.5) * width, 2), "middle", cut(label, room))
            for i, label in enumerate(labels)
        ]
    ends = labels[0].partition(" – ")[0], ", ".join(labels[-1 - (labels[-1] == "NULL") :])
    return [
        (0.0, "start", cut(ends[0].replace("T", " "), 26)),
        (WIDTH, "end", cut(ends[1].replace("T", " "), 28)),
    ]


def cut(label: str, room: int) -> str:
    """Return a label, shortened by an ellipsis if it is too long.

    >>> cut("reputation", 6)
    'reput…'
    """
    return label if len(label) <= room else f"{label[: room - 1]}…"
