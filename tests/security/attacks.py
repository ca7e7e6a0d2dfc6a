"""Attacks in files of SQL, each under a line that begins with ``---`` and says what it is."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "attacks"


def read(name: str) -> list[tuple[str, str]]:
    """What is said of each attack of a file, and its text.

    ``\\u`` and four digits stand for a sign.
    """
    text = (_FOLDER / name).read_text(encoding="utf-8")
    text = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)
    parts = (part.split("\n", 1) for part in text.split("\n--- ")[1:])
    return [(said, body.strip("\n")) for said, body in parts]
