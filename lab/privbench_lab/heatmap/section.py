"""The query heat map: a circuit coloured by how selective a query is at each node."""

from __future__ import annotations

from typing import Any, ClassVar

from jinja2 import Template
from pydantic import TypeAdapter

from privbench.report.document import ComparisonDocument
from privbench.report.section_plugins import Comparison, ReportSection
from privbench.report.sections.bars import cut
from privbench.report.templates import template
from privbench_lab.heatmap.collect import drawings, heatmaps
from privbench_lab.heatmap.model_tree import modelled_tables
from privbench_lab.heatmap.parts import HeatMapPart, HeatNodePart

#: Sizes in SVG units: distance of levels and of leaves, a node, and room for the leaves' names.
LEVEL, ROW, BOX, NAMES = 84.0, 22.0, (58.0, 16.0), 92.0
#: Upper ends of the steps of selectivity that share a colour.
STEPS = (0.0, 0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)
#: A node's left edge and middle, and the path from its parent, which is empty for the root.
Spot = tuple[float, float, str]


_MAPS = TypeAdapter(list[HeatMapPart])


class HeatMapSection(ReportSection):
    """Small circuits of the tables on which most queries have conditions."""

    name: ClassVar[str] = "heatmap"

    def collect(self, comparison: Comparison) -> Any:
        """See `ReportSection.collect`; a list of `HeatMapPart`."""
        tables = modelled_tables(comparison.model) if comparison.model is not None else {}
        schema, fidelity = comparison.schema, comparison.fidelity
        drawn = drawings(schema, fidelity, comparison.queries, tables)
        if not drawn:
            return None
        with comparison.snapshots(drawn) as (source, clone):
            maps = heatmaps(source, clone, schema, fidelity, drawn)
        return _MAPS.dump_python(maps, mode="json") or None

    def values(self, document: ComparisonDocument) -> dict[str, object]:
        """See `ReportSection.values`."""
        maps = _MAPS.validate_python(document.sections[self.name])
        return {
            "maps": [(part, *_layout(part.nodes), _sides(part)) for part in maps],
            "box": BOX,
            "heat": heat,
            "asked": _asked,
            "cut": cut,
            "steps": STEPS,
        }

    def template(self) -> Template:
        """See `ReportSection.template`."""
        return template("section.html.j2", "privbench_lab.heatmap", ".")


def _sides(part: HeatMapPart) -> tuple[tuple[str, str, str], ...]:
    """Drawings side by side: field, heading and class of the heading of each."""
    sides = (("real", "source", "realname"), ("clone", "clone", "copyname"))
    model = (("model", "model, by its circuit", ""),) if part.circuit == "model" else ()
    return (*sides, *model)


def heat(share: float | None) -> str:
    """The colour's class: h0 for nothing … h9 for every row; hx where no row is routed.

    >>> heat(0.0), heat(0.3), heat(1.0), heat(None)
    ('h0', 'h4', 'h9', 'hx')
    """
    if share is None:
        return "hx"
    return f"h{next(i for i, top in enumerate(STEPS) if share <= top)}"


def _asked(predicates: list[str], node: HeatNodePart) -> bool:
    """Whether some predicate reads a column of the node's scope."""
    words = " ".join(predicates).lower()
    return any(column.lower() in words for column in node.columns)


def _layout(nodes: list[HeatNodePart]) -> tuple[list[Spot], float, float]:
    """Spots, width and height: leaves in rows, other nodes halfway from first to last child."""
    depths: list[int] = []
    children: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        depths.append(0 if node.parent is None else depths[node.parent] + 1)
        if node.parent is not None:
            children[node.parent].append(place)
    leaves = [place for place, below in enumerate(children) if not below]
    ys = {place: ROW * (row + 0.5) + 8 for row, place in enumerate(leaves)}
    for place in reversed(range(len(nodes))):
        if below := children[place]:
            ys[place] = (ys[below[0]] + ys[below[-1]]) / 2
    spots = []
    for place, node in enumerate(nodes):
        x, y, edge = LEVEL * depths[place], ys[place], ""
        if node.parent is not None:
            left, high = LEVEL * depths[node.parent] + BOX[0], ys[node.parent]
            bend = (left + x) / 2
            curve = f"{bend:g} {high:.4g} {bend:g} {y:.4g}"
            edge = f"M{left:g} {high:.4g}C{curve} {x:g} {y:.4g}"
        spots.append((x, y, edge))
    return spots, LEVEL * max(depths) + BOX[0] + NAMES, ROW * len(leaves) + 8
