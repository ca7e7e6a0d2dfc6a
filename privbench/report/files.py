"""The files of a comparison. All of them are CONFIDENTIAL, so only their owner may read them."""

from __future__ import annotations

from pathlib import Path

from privbench.errors import UsageError
from privbench.files import make_folder, write_text
from privbench.report import html, markdown
from privbench.report import junit as junit_xml
from privbench.report import openmetrics as metrics_text
from privbench.report.document import ComparisonDocument
from privbench.workload.results import ReplayLog


def prepare(out_dir: str | Path | None) -> Path | None:
    """Make the folder."""
    if out_dir is None:
        return None
    folder = Path(out_dir)
    try:
        make_folder(folder)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}.") from error
    return folder


def log(folder: Path | None) -> Path | None:
    """Where a replay keeps what it needs to go on after a break."""
    return folder / "replay.jsonl" if folder else None


def write(
    document: ComparisonDocument,
    folder: Path | None,
    *,
    junit: Path | None = None,
    openmetrics: Path | None = None,
) -> None:
    """Write comparison.json, report.html and report.md into the folder, and other forms if asked.

    Each file appears whole or not at all. The log of the replay is then marked done.

    Raises:
        UsageError: A file cannot be written.
    """
    if folder is not None:
        _put(folder / "comparison.json", document.model_dump_json(indent=1) + "\n")
        _put(folder / "report.html", html.render(document))
        _put(folder / "report.md", markdown.render(document))
        ReplayLog.finish(folder / "replay.jsonl")
    if junit is not None:
        _put(junit, junit_xml.render(document))
    if openmetrics is not None:
        _put(openmetrics, metrics_text.render(document))


def _put(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}.") from error
