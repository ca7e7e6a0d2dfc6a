"""What a cell ran on: versions of programs, and the machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

import privbench


@cache
def versions() -> dict[str, str]:
    """Versions of this project, with its commit in a checkout, of Python and of what draws noise.

    A commit with uncommitted changes is marked by a plus sign.
    """
    packages = {name: version(name) for name in ("numpy", "opendp", "psycopg")}
    project = {"privbench": privbench.__version__, "commit": _commit()}
    return {**project, "Python": platform.python_version(), **packages}


def _commit() -> str:
    """The checkout's commit; empty outside one."""
    folder = Path(privbench.__file__).parent
    head = _git(folder, "rev-parse", "HEAD")
    changed = _git(folder, "status", "--porcelain", "-uno", "--", ".", "../lab/privbench_lab")
    return f"{head}+" if head and changed else head


def _git(folder: Path, *words: str) -> str:
    """What git says, without the ends of its lines; nothing where it fails."""
    command = ["git", "-C", str(folder), *words]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return "" if ran.returncode else ran.stdout.strip()


@cache
def machine() -> dict[str, str]:
    """Processor, cores, memory and system of this machine; what it does not tell is empty."""
    kilobytes = _field("/proc/meminfo", "MemTotal").removesuffix("kB").strip()
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": str(os.cpu_count() or ""),
        "memory": f"{int(kilobytes) / 2**20:.0f} GiB" if kilobytes else "",
        "system": f"{platform.system()} {platform.machine()}",
    }


def _field(path: str, name: str) -> str:
    """The first value of a name in a file of ``name: value`` lines; empty where there is none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""
