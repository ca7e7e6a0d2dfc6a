"""The files of a comparison. All of them are CONFIDENTIAL, so only their owner may read them."""

from __future__ import annotations

import os
from pathlib import Path

from privbench.errors import UsageError
from privbench.report import html, junit, markdown
from privbench.report.document import ComparisonDocument
from privbench.workload.results import ReplayLog

_OWNER_FOLDER, _OWNER_FILE = 0o700, 0o600


def prepare(out_dir: str | Path | None) -> Path | None:
    """Make the folder.

    Raises:
        UsageError: It cannot be made, or is no folder.
    """
    if out_dir is None:
        return None
    folder = Path(out_dir)
    try:
        folder.mkdir(mode=_OWNER_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}.") from error
    return folder


def log(folder: Path | None, suffix: str = "") -> Path | None:
    """Where a replay keeps what it needs to go on after a break."""
    return folder / f"replay{'-' if suffix else ''}{suffix}.jsonl" if folder else None


def write(document: ComparisonDocument, folder: Path | None, junit_path: Path | None) -> None:
    """Write comparison.json, report.html and report.md into the folder, and JUnit XML if asked.

    Each file appears whole or not at all. The logs of the replays are then marked done.

    Raises:
        UsageError: A file cannot be written.
    """
    if folder is not None:
        _put(folder / "comparison.json", document.model_dump_json(indent=1) + "\n")
        _put(folder / "report.html", html.render(document))
        _put(folder / "report.md", markdown.render(document))
        for log in folder.glob("replay*.jsonl"):
            ReplayLog.finish(log)
    if junit_path is not None:
        _put(junit_path, junit.render(document))


def _put(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(_OWNER_FILE)
        os.replace(fresh, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}.") from error
