"""The section with matrices of association of each table's columns: source, clone, difference."""

from privbench.report.document import ComparisonDocument, CorrelationPart
from privbench.report.sections.bars import cut
from privbench.report.sections.columns import UNFOLDED, drawn

#: Side of a matrix and width of its labels, in SVG units; most columns for which numbers fit.
SIDE, LABELS, _NUMBERED = 240.0, 96.0, 7
#: Largest differences that are listed.
_LISTED = 5
# Upper ends of the steps of |value| that share a colour; a difference may reach 2.
_STEPS = (0.02, 0.1, 0.2, 0.35, 0.5, 0.7, 2.0)


def values(document: ComparisonDocument) -> dict[str, object] | None:
    """Return the values for the section's template; None if the section is empty."""
    parts = document.views.correlations
    chosen = drawn(document)
    if not any(part.table in chosen for part in parts):
        return None
    furthest = sorted(enumerate(parts), key=lambda item: -(item[1].mean_difference or 0))
    return {
        "tables": [
            (i, part, _grids(part), _gaps(part)) for i, part in furthest if part.table in chosen
        ],
        "side": SIDE,
        "margin": LABELS,
        "cut": cut,
        "unfolded": len(parts) <= UNFOLDED,
        "steps": ("n6", "n4", "n2", "p0", "p2", "p4", "p6"),
    }


def _grids(part: CorrelationPart) -> list[dict[str, object]]:
    """The matrices as the template draws them: of the source, of the clone, of the difference."""
    gaps: list[list[float | None]] = [
        [None if a is None or b is None else b - a for a, b in zip(*rows, strict=True)]
        for rows in zip(part.real, part.clone, strict=True)
    ]
    return [
        _grid("source", "real", part.real),
        _grid("clone", "clone", part.clone),
        _grid("clone less source", "", gaps),
    ]


def _grid(title: str, side: str, matrix: list[list[float | None]]) -> dict[str, object]:
    """Heading, side of the document's part (none for the difference), and what is drawn.

    That is the path of the cells of every colour's class, and the row, column and class of the
    cells whose number is printed.
    """
    size, few = SIDE / len(matrix), len(matrix) <= _NUMBERED
    paths: dict[str, str] = {}
    numbers: list[tuple[int, int, str]] = []
    for y, row in enumerate(matrix):
        for x, value in enumerate(row):
            name = step(value)
            if x != y:
                cell = f"M{x * size:.4g} {y * size:.4g}h{size:.4g}v{size:.4g}h{-size:.4g}z"
                paths[name] = paths.get(name, "") + cell
            if few and value is not None:
                numbers.append((y, x, name))
    return {"title": title, "side": side, "paths": paths, "numbers": numbers}


def step(value: float | None) -> str:
    """Return the class of a colour: n6 … n1 below 0, p0 near 0, p1 … p6 above, px if unknown.

    >>> step(-0.9), step(0.0), step(0.3), step(None)
    ('n6', 'p0', 'p3', 'px')
    """
    if value is None:
        return "px"
    place = next(i for i, top in enumerate(_STEPS) if abs(value) <= top)
    return f"n{place}" if value < 0 and place else f"p{place}"


def _gaps(part: CorrelationPart) -> list[tuple[int, int]]:
    """The pairs of columns, by their places, that differ most."""
    gaps = [
        (abs(real - clone), i, j)
        for i in range(len(part.columns))
        for j in range(i)
        if (real := part.real[i][j]) is not None and (clone := part.clone[i][j]) is not None
    ]
    return [(i, j) for _, i, j in sorted(gaps, key=lambda gap: -gap[0])[:_LISTED]]
