"""Lists that lie beside the code as JSON: words, labels and ranges by names of columns."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import Any


@cache
def packaged(name: str, package: str = "privbench.encoding") -> dict[str, Any]:
    """A file of lists as it stands in a package's ``data``; not to be changed.

    >>> sorted(packaged("names")["glued"])[:2]
    ['category', 'continent']
    """
    path = resources.files(package) / "data" / f"{name}.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def whole(names: str) -> re.Pattern[str]:
    """What matches a name that a pattern matches from end to end."""
    return re.compile(f"(?:{names})\\Z")
