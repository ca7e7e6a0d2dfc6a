"""What tests on a clone cost: a start, a database of a test's own, and the plugin left unused.

    python benchmarks/serve.py MODEL
    python benchmarks/serve.py MODEL --scale 0.01 --on docker --rounds 20

Processor seconds are those of `privbench serve MODEL -- true` and of all that it starts (of a
container those of the engine are left out), first without a cache, then with it. A test's own
database is what `privbench_dsn` does before the test, against a bare `CREATE DATABASE … TEMPLATE`
of the same clone on an open connection, turn by turn in the same run; the ratio is that of medians.
Of the plugin it prints what pytest imports because of it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import psycopg

from privbench import publish
from privbench.publish import serving

#: Orphans become our children, so that the processor time of servers counts (Linux).
SUBREAPER = 36
IMPORTED = "import json, sys\ndef test(): open('modules', 'w').write(json.dumps([*sys.modules]))"
#: What the plugin must not import.
LIBRARIES = ("numpy", "scipy", "sqlalchemy", "psycopg", "pyarrow")


def processor(command: list[str], **environment: str) -> float:
    """Processor seconds of a command and of all that it leaves running until it ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds(do: Callable[[], object]) -> float:
    """Seconds of the clock."""
    begun = time.perf_counter()
    do()
    return time.perf_counter() - begun


def databases(uri: str, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of databases of a test's own, and of bare copies."""
    own, bare = [], []
    with psycopg.connect(uri.rpartition("/")[0] + "/postgres", autocommit=True) as connection:
        made = f"CREATE DATABASE bare TEMPLATE {serving.DATABASE}"
        for number in range(rounds):
            turns = [
                lambda: own.append(seconds(lambda: serving.copy(uri, "own"))),
                lambda: bare.append(seconds(lambda: connection.execute(made))),
            ]
            for turn in turns[:: -1 if number % 2 else 1]:
                turn()
            serving.drop(uri, "own")
            serving.drop(uri, "bare")
            print(f"  {number + 1}: own {own[-1]:.3f} s, bare {bare[-1]:.3f} s", flush=True)
    return own, bare


def imported(folder: Path, *words: str) -> set[str]:
    """Modules of a pytest in which nothing asks for a clone."""
    (folder / "test_nothing.py").write_text(IMPORTED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return set(json.loads((folder / "modules").read_text()))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--on", default="embedded")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    model = Path(options.model).resolve()
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = name
        words = ["serve", str(model), "--scale", str(options.scale), "--on", options.on]
        command = [sys.executable, "-m", "privbench", *words, "--", "true"]
        cold, *warm = (processor(command) for _ in range(4))
        print(f"serve -- true: {cold:.2f} CPU s at first, then {median(warm):.2f}")
        with publish.serve(model, scale=options.scale, on=options.on) as uri:
            own, bare = databases(uri, options.rounds)
        print(f"a test's own database / bare copy: {median(own) / median(bare):.2f}")
        folder = Path(name)
        more = imported(folder) - imported(folder, "-p", "no:privbench.testing")
        print(f"the unused plugin imports {len(more)} modules: {', '.join(sorted(more))}")
        wrong = [item for item in more if item.partition(".")[0] in LIBRARIES]
        print(f"of these libraries: {', '.join(wrong) or 'none'}")


if __name__ == "__main__":
    main()
