"""Report the progress of a long command.

Durations are CONFIDENTIAL (P1): they go to the terminal or the log, never into a release.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privbench.errors import PrivacyRefusal
    from privbench.privacy import Accountant, Cap, Ledger, Release


@dataclass
class Spending:
    """The objects that know what a fit spends and what budget is left."""

    ledger: Ledger
    cap: Cap  # the cap in the config
    accountant: Accountant
    tables: Sequence[str]  # those that a fit learns
    release: Release | None = None  # the release in the ledger; None until it is opened


@dataclass
class Reporter:
    """Records the stages of a command; subclasses draw progress bars or write log lines."""

    # The stages that are done: name, seconds, and the process's peak memory (MiB) at the end.
    stages: list[tuple[str, float, float]] = field(default_factory=list)
    spending: Spending | None = None  # what a fit spends; None until the fit has opened the ledger
    strict: bool = False  # whether a fit stops where finer units would make a table useful
    agreed: bool = False  # whether nobody is asked if it stops there
    offered: str = ""  # the units that it went on without

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the duration of a stage, which is this context."""
        begun = time.perf_counter()
        self.begin(name)
        try:
            yield
        except BaseException:
            self.broken()
            raise
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.stages.append((name, time.perf_counter() - begun, peak))
        self.end(*self.stages[-1])

    def begin(self, name: str) -> None:
        """Called when a stage begins."""

    def advance(self, what: str, done: int, total: int | None = None) -> None:
        """Called during a stage: `done` rows or items are finished, of `total` if it is known."""

    def end(self, name: str, seconds: float, peak: float) -> None:
        """Called when a stage is done; see `stages`."""

    def broken(self) -> None:
        """Called when a stage has failed."""

    def say(self, text: str) -> None:
        """Show a line to the operator."""

    def again(self, *options: str) -> str | None:
        """Return the command that does the same again, with further options.

        None if it takes none.
        """
        return f"the same command with {' '.join(options)}"

    def choose(self, error: PrivacyRefusal, releases: Sequence[str]) -> str | None:
        """Return which interrupted release of the same fit to resume, or None to open another.

        The error names the releases and says how to continue; it is raised unless somebody chooses.
        """
        raise error

    def exceed(self, text: str) -> None:
        """Called before more budget is spent than was requested; an error raised here stops it."""
        self.say(text)

    def offer(self, error: PrivacyRefusal, text: str) -> None:
        """Called where finer privacy units would help, before more than the totals is spent."""
        self.offered = text
        if self.strict:
            raise error
        self.warn(text)

    def warn(self, text: str) -> None:
        """Show a line that the operator should see before more is spent."""
