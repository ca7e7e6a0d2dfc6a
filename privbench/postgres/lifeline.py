"""A folder with a server in it that goes when this process ends, however it ends.

A process that is killed can tidy up nothing. So a second one waits on a pipe whose other end only
the first holds: when that is closed, by hand or by the system, it stops the server and removes the
folder. It is this file, run as a program, and needs nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_ATTEMPTS = 100


class Lifeline:
    """A new folder, and the process that waits to remove it.

    Attributes:
        folder: Open to this account alone.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="privbench-"))
        self._waiting = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", __file__, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def end(self) -> None:
        """Stop the server, remove the folder, and wait until both are done."""
        if self._waiting.stdin is not None:
            self._waiting.stdin.close()
        self._waiting.wait()


def _stop(folder: Path) -> None:
    """Stop servers whose data lie in a folder of the folder, without a checkpoint."""
    for file in folder.glob("*/data/postmaster.pid"):
        with suppress(OSError, ValueError, IndexError):
            process = int(file.read_text().split()[0])
            os.kill(process, signal.SIGQUIT)
            for _ in range(_ATTEMPTS):
                os.kill(process, 0)
                time.sleep(0.05)


def _remove(folder: Path) -> None:
    """Remove the folder; again, while a server that was just starting still writes to it."""
    for _ in range(_ATTEMPTS):
        _stop(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)


if __name__ == "__main__":
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    _remove(Path(sys.argv[1]))
