"""Models that somebody has changed, with fitting hashes, and what is done with them."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

Parts = dict[str, bytes]
Json = dict[str, Any]


def members(path: Path) -> Parts:
    """The members of a model by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@cache
def _honest(path: Path) -> Parts:
    """Those of a model that no test changes."""
    return members(path)


def parts_of(path: Path) -> tuple[Parts, Json]:
    """The other members of an honest model, and its header."""
    parts = dict(_honest(path))
    return parts, json.loads(parts.pop("header.json"))


def write(target: Path, parts: Parts, header: Json | bytes) -> Path:
    """A model of members and a header; hashes are made to fit where the header is no text."""
    if not isinstance(header, bytes):
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
        if isinstance(header.get("sha256"), dict):
            header = {**header, "sha256": hashes}
        header = json.dumps(header).encode()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("header.json", header)
        for name, data in parts.items():
            archive.writestr(name, data)
    return target


def forge(path: Path, target: Path, change: Callable[[Parts, Json], object]) -> Path:
    """A copy of a model with changed members or fields."""
    parts, header = parts_of(path)
    change(parts, header)
    return write(target, parts, header)


def text(header: Json, old: str, new: str) -> None:
    """Replace a text wherever it stands in a header."""
    changed = json.loads(json.dumps(header).replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1]))
    header.clear()
    header.update(changed)
