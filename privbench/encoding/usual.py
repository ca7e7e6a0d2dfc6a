"""Labels that columns of some names usually hold: public, so that they can be counted without δ."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources

from privbench.encoding.semantic import is_kind, snake


def usual_labels(column: str, least: int = 0, greatest: int | None = None) -> tuple[str, ...]:
    """Labels to look for in a column of which no list is known, the most usual first.

    Args:
        column: The column's name, the only thing that the choice follows.
        least: Least length of a label.
        greatest: Greatest length, or None.

    Returns:
        Distinct labels of fitting lengths; none where the name tells nothing.

    >>> usual_labels("gender", greatest=1)[:2], usual_labels("Ship_Country")[:2]
    (('M', 'F'), ('USA', 'Germany'))
    >>> usual_labels("remarks")
    ()
    """
    name = snake(column)
    lists, kinds = _data()
    found = next((labels for names, labels in lists if names.match(name)), None)
    if found is None:
        found = kinds if is_kind(column) else ()
    top = max(map(len, found), default=0) if greatest is None else greatest
    return tuple(label for label in found if least <= len(label) <= top)


@lru_cache(maxsize=1)
def _data() -> tuple[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...], tuple[str, ...]]:
    """The package's lists by patterns of names, and labels of columns of kinds."""
    path = resources.files("privbench.encoding") / "data" / "labels.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    lists = tuple(
        (re.compile(f"(?:{item['names']})\\Z"), tuple(item["labels"])) for item in data["lists"]
    )
    return lists, tuple(data["kinds"])
