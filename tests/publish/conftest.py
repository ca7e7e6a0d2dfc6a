"""One bundle for all tests of this folder, and where servers of clones run."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import pytest

from privbench.publish import publish, tabular
from privbench.publish.making import About


@pytest.fixture(scope="session")
def original(model, make_database, tmp_path_factory):
    """The bundle of a model of the market; not to be changed."""
    folder = tmp_path_factory.mktemp("published") / "bundle"
    about = About("The |market|", "A publisher", "CC0-1.0", date(2026, 1, 31))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabular, "CHUNK_ROWS", 25)
        publish(model, folder, about=about, database=make_database(), queries=12)
    return folder


@pytest.fixture
def bundle(original, tmp_path):
    """A copy of it."""
    return shutil.copytree(original, tmp_path / "bundle")


@pytest.fixture
def place():
    """A folder for servers, which the account that runs them can reach.

    In the end nothing is in it, and no process of ours names it, but for what a test has started.
    """
    folder = Path(tempfile.mkdtemp(prefix="pb-test-"))
    folder.chmod(0o755)
    yield folder
    for _ in range(600):
        if not any(folder.iterdir()) and not _processes(folder):
            break
        time.sleep(0.1)
    left = [*folder.iterdir(), *_processes(folder)]
    shutil.rmtree(folder)
    assert not left


def _processes(folder: Path) -> list[str]:
    """Command lines of the processes that were started for servers in a folder."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (process / "environ").read_bytes():
                lines.append((process / "cmdline").read_text())
    return lines


@pytest.fixture
def surroundings(place, tmp_path, tmp_path_factory):
    """Environment variables of a process that serves clones, with a cache for all tests."""
    cache = {"TMPDIR": str(place), "XDG_CACHE_HOME": str(tmp_path_factory.getbasetemp() / "cache")}
    # What leads elsewhere: nobody answers there.
    wrong = {"PGHOSTADDR": "::2", "PGSERVICE": "no"}
    return {**os.environ, **cache, **wrong, "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}


@pytest.fixture
def spawn(surroundings):
    """``spawn(module, *words, env={}, **options)``: a process of a module, killed in the end."""
    processes = []

    def run(module: str, *words: object, env=(), **options) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, words)],
            env={**surroundings, **dict(env)},
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.wait()
        for stream in filter(None, (process.stdout, process.stderr)):
            stream.close()
