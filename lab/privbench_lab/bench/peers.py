"""Peers: other people's synthesizers, each run in an environment and a process of its own.

The table of peers is ``peers.toml`` beside this file: pinned packages, a script of a few lines, and
whether the privacy proof holds. Data are exchanged as CSV and JSON. Peers get the same codes as
installed synthesizers, so they spend nothing on bounds; a column of numbers has at most as many
codes as the config says.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock
from platformdirs import user_cache_path

from privbench.errors import PrivbenchError
from privbench_lab.bench.fitting import Made
from privbench_lab.bench.table import Table, coarse
from privbench_lab.literature.proofs import Proof

#: Environment variable with the folder in which the environments of peers are made.
VARIABLE = "PRIVBENCH_PEERS"
#: Seconds that making an environment may take: torch alone is some hundred megabytes.
_INSTALL = 3600
_READY = "ready"
#: Installers and peers get only the environment variables whose names begin with one of these.
_SETTINGS = ("PATH", "HOME", "LANG", "LC_", "TMP", "TEMP", "SSL_", "HTTP", "NO_PROXY",
             "ALL_PROXY", "PIP_", "UV_", "XDG_CACHE", "PYENV_")  # fmt: skip
#: The code that runs before and after a peer's script.
_FRAME = """
import json, sys, time
import numpy as np, pandas as pd
job = json.loads(sys.stdin.read())
rows = pd.read_csv(job["rows"])
sizes, ordered, target, folder = job["sizes"], set(job["ordered"]), job["target"], job["folder"]
epsilon, delta, seed, peer = job["epsilon"], job["delta"], job["seed"], job["peer"]
started = time.perf_counter()
exec(compile(job["script"], "peer", "exec"))
seconds = time.perf_counter() - started
made = pd.DataFrame(made)
if not set(rows.columns) & set(made.columns) and made.shape[1] == rows.shape[1]:
    made.columns = rows.columns
made.to_csv(job["made"], index=False)
open(job["said"], "w").write(json.dumps({"seconds": seconds}))
"""


class PeerFailed(PrivbenchError):
    """A peer or another program could not be installed, or did not give what it should."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A row of the table of peers."""

    name: str  # its name in grids
    call: str  # its name in its script
    python: tuple[str, str]  # least and greatest version of Python, as ``3.11``
    pins: tuple[str, ...]  # packages that pip installs
    proof: Proof  # whether the privacy proof holds
    script: str  # Python code that sets ``made`` to synthetic rows, learned from ``rows``
    seeded: bool  # whether its noise follows from the seed, so that its rows are NOT PRIVATE


@cache
def peers() -> dict[str, Peer]:
    """All peers by name."""
    raw = tomllib.loads(Path(__file__).with_name("peers.toml").read_text(encoding="utf-8"))
    found = {}
    for name, row in raw["peers"].items():
        package = raw["packages"][row["package"]]
        proof = Proof(row["proof"], row["reason"], f"the package {row['package']}")
        python, pins = tuple(package["python"]), tuple(package["pins"])
        seeded = package.get("seeded", False)
        found[name] = Peer(name, row["call"], python, pins, proof, package["script"], seeded)
    return found


def environment(python: tuple[str, str], pins: tuple[str, ...]) -> Path:
    """Path of a Python of these versions in a virtual environment with pinned packages.

    It is made on first use, and shared by all peers with the same versions and pins. A PeerFailed
    says in one line why there is none.
    """
    base = Path(os.environ.get(VARIABLE) or user_cache_path("privbench") / "peers")
    digest = hashlib.sha256("\n".join((*pins, *python)).encode()).hexdigest()[:16]
    place = base / digest
    base.mkdir(parents=True, exist_ok=True)
    with FileLock(base / f"{digest}.lock"):
        if not (place / _READY).exists():
            shutil.rmtree(place, ignore_errors=True)
            _make(place, python, pins)
            (place / _READY).write_text("\n".join(pins))
    return place / "bin/python"


def _make(place: Path, versions: tuple[str, str], pins: tuple[str, ...]) -> None:
    uv, base, python = shutil.which("uv"), _fitting(versions), str(place / "bin/python")
    if uv is not None:
        _run([uv, "venv", "--python", base or versions[1], str(place)])
        _run([uv, "pip", "install", "--python", python, *pins])
    elif base is not None:
        _run([base, "-m", "venv", str(place)])
        _run([python, "-m", "pip", "install", "--quiet", *pins])
    else:
        raise PeerFailed(f"needs Python {' to '.join(versions)}, and there is none here.")


def _fitting(versions: tuple[str, str]) -> str | None:
    """A Python of this machine between two versions, our own first."""
    low, high = (tuple(map(int, end.split("."))) for end in versions)
    if low <= sys.version_info[:2] <= high:
        return sys.executable
    for minor in range(high[1], low[1] - 1, -1):
        if found := shutil.which(f"python3.{minor}"):
            return found
    return None


def run_program(command: list[str], folder: Path, limit: float) -> None:
    """Run a program in a folder, without secrets of the environment; PeerFailed where it fails."""
    try:
        ran = _process(command, limit, cwd=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(f"{Path(command[0]).name} did not end: {type(error).__name__}.") from error
    if ran.returncode:
        raise PeerFailed(f"{Path(command[0]).name} failed: {_last(ran.stderr)}")


def _run(command: list[str]) -> None:
    try:
        ran = _process(command, _INSTALL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(f"does not install: {type(error).__name__}.") from error
    if ran.returncode:
        raise PeerFailed(f"does not install: {_last(ran.stderr)}")


def _process(command: list[str], limit: float, **more: Any) -> subprocess.CompletedProcess[str]:
    ran: subprocess.CompletedProcess[str] = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=limit, check=False, env=_clean(), **more
    )
    return ran


def _clean() -> dict[str, str]:
    """The environment of a peer: one thread, and no secrets but those of package indexes."""
    kept = {k: v for k, v in os.environ.items() if k.upper().startswith(_SETTINGS)}
    return {**kept, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def _last(text: str) -> str:
    """The last line that is not empty, shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "it said nothing")[:300]


def call(python: Path, code: str, job: Mapping[str, Any], folder: str, limit: float) -> None:
    """Run code by an environment's Python, in a process whose working folder is ``folder``.

    The code reads ``job`` as JSON from its standard input, and must write the file that
    ``job["said"]`` names within ``limit`` seconds; else PeerFailed.
    """
    try:
        command, told = [str(python), "-c", code], json.dumps(job)
        ran = _process(command, limit, input=told, cwd=folder)
    except subprocess.TimeoutExpired as error:
        raise PeerFailed(f"stopped after {limit:g} s.") from error
    if ran.returncode or not Path(job["said"]).exists():
        raise PeerFailed(f"crashed: {_last(ran.stderr)}")


def run(
    peer: Peer, table: Table, epsilon: float, delta: float, seed: int, *, cells: int, limit: float
) -> Made:
    """Synthetic rows of a peer, which gets codes of training rows, at most ``cells`` of a column.

    The seed is for decoding, and for the peer's noise if that has to be seeded. The peer may take
    ``limit`` seconds. A PeerFailed says that the peer cannot be installed, crashed, ran out of time
    or gave no such rows.
    """
    python, binned = environment(peer.python, peer.pins), coarse(table, cells)
    with tempfile.TemporaryDirectory(prefix="pb-peer-") as folder:
        paths = {name: Path(folder, f"{name}.csv") for name in ("rows", "made", "said")}
        pd.DataFrame(binned.codes(binned.train)).to_csv(paths["rows"], index=False)
        job = {
            **{name: str(path) for name, path in paths.items()},
            "folder": folder,
            "sizes": {name: domain.size for name, domain in binned.domains.items()},
            "ordered": [name for name, domain in binned.domains.items() if domain.ordered],
            "target": table.target,
            "epsilon": epsilon,
            "delta": delta,
            "seed": seed,
            "script": peer.script,
            "peer": peer.call,
        }
        started = time.perf_counter()
        call(python, _FRAME, job, folder, limit)
        seconds = float(json.loads(paths["said"].read_text())["seconds"])
        values = binned.values(_codes(binned, pd.read_csv(paths["made"])), seed)
    rest = time.perf_counter() - started - seconds
    return Made(values, seconds, max(rest, 0.0), not peer.seeded, binned)


def _codes(table: Table, found: pd.DataFrame) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """The codes that a peer made, rounded to whole numbers and clipped to the domain."""
    if missing := [name for name in table.columns if name not in found.columns]:
        raise PeerFailed(f"gave no column {missing[0]!r}.")
    codes = {}
    for name, domain in table.domains.items():
        numbers = pd.to_numeric(found[name], errors="coerce")
        if numbers.isna().any():
            raise PeerFailed(f"gave what is no code in column {name!r}.")
        codes[name] = numbers.round().clip(0, domain.size - 1).to_numpy(np.int64)
    return codes
