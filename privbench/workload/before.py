"""What is done on a side before each of its runs, for runs that find no warm cache."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass

from privbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Before:
    """Steps before each run, outside its time, in the order of the attributes.

    Attributes:
        command: A program of this machine with its arguments, split as a shell would and run
            without one; the environment holds the side's name as PRIVBENCH_SIDE. It may empty the
            operating system's cache or restart the server.
        fresh: Leave the connection and make a new one: the caches of a backend (catalog, plans,
            temporary buffers) are then empty. The server's and the machine's caches are not.
        statement: One statement in the run's session, which is read only: ``DISCARD ALL``,
            ``SELECT pg_buffercache_evict_all()``. The common settings hold again after it.
    """

    command: str | None = None
    fresh: bool = False
    statement: str | None = None

    def __str__(self) -> str:
        """In words; empty where nothing is done."""
        steps = [
            f"command: {self.command}" if self.command else "",
            "new connection" if self.fresh else "",
            f"statement: {self.statement}" if self.statement else "",
        ]
        return "; ".join(step for step in steps if step)

    def run_command(self, side: str) -> None:
        """Run the command, if there is one.

        Raises:
            UsageError: It cannot be run, or does not exit with 0.
        """
        if self.command is None:
            return
        try:
            words = shlex.split(self.command)
            # The user's own command, without a shell.
            done = subprocess.run(  # noqa: S603
                words, env={**os.environ, "PRIVBENCH_SIDE": side}, capture_output=True, check=False
            )
        except (OSError, ValueError, IndexError):
            raise UsageError(
                f"the command before a run, {self.command!r}, cannot be run."
            ) from None
        if done.returncode:
            raise UsageError(
                f"the command before a run, {self.command!r}, ended with exit code"
                f" {done.returncode} on the {side}."
            )


#: Caches are left as they are.
NOTHING = Before()
