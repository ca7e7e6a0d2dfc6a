"""The section on children per parent along every foreign key."""

import math

from privbench.metrics.fanout import FanoutPart
from privbench.report.document import ComparisonDocument
from privbench.report.sections.bars import WIDTH, Tick, bars
from privbench.report.sections.columns import UNFOLDED
from privbench.report.text import percent

#: Most foreign keys that are drawn: each adds 1.3 kB to the page.
KEYS = 150


def drawn(document: ComparisonDocument) -> list[tuple[int, FanoutPart]]:
    """Return the keys that are drawn with their positions, those that differ most first.

    There are as many as fit on the page.
    """
    return sorted(enumerate(document.views.fanouts), key=lambda item: -item[1].tvd)[:KEYS]


def values(document: ComparisonDocument) -> dict[str, object] | None:
    """Return the values for the section's template; None if the section is empty."""
    fanouts = document.views.fanouts
    if not fanouts:
        return None
    return {
        "keys": [(i, part, _chart(part)) for i, part in drawn(document)],
        "hidden": max(0, len(fanouts) - KEYS),
        "unfolded": len(fanouts) <= 2 * UNFOLDED,
    }


def _chart(part: FanoutPart) -> dict[str, object]:
    """Bars on a logarithmic scale (a heavy tail is few parents), and the shares at its ends."""
    shares = [share for share in (*part.real.shares, *part.clone.shares) if share > 0]
    low = math.floor(math.log10(min(shares, default=0.1)) - 1e-9)
    high = math.log10(max(shares, default=1.0))

    def height(share: float) -> float:
        return (math.log10(share) - low) / max(high - low, 1e-9) if share > 0 else 0.0

    ends = percent(10**high), percent(10**low)
    ticks = _ticks(part.labels)
    return bars(part.labels, part.real.shares, part.clone.shares, height, ends, ticks)


def _ticks(labels: list[str]) -> list[Tick]:
    """The lower ends of the buckets, every second one where there are many."""
    cell = WIDTH / len(labels)
    return [
        (round((i + 0.5) * cell, 2), "middle", label.partition("–")[0])
        for i, label in enumerate(labels)
        if len(labels) <= 9 or i % 2 == 0
    ]
