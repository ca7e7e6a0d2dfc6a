"""Output for the operator: results, progress, log lines, errors. All of it is CONFIDENTIAL (P1).

No other module prints, and everything that is printed here is escaped by `privbench.display`.
"""

import json
import logging
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from contextvars import ContextVar
from importlib import import_module
from threading import Timer, current_thread
from typing import Any, TextIO

import click
from rich.console import Console
from rich.logging import RichHandler
from rich.text import Text

from privbench.display import lines, visible
from privbench.errors import PrivacyRefusal, PrivbenchError, UsageError
from privbench.pipeline.progress import Reporter

LOG = logging.getLogger("privbench")

#: Whether the command line agrees that a release costs more than was asked for.
PAY_AGAIN: ContextVar[bool] = ContextVar("pay_again", default=False)
#: Whether the command line opens a release beside an unfinished one of the same fit.
ANOTHER: ContextVar[bool] = ContextVar("another", default=False)

#: Commands that take --resume. The database of a demo or of an audit ends with its command.
_RESUMING = frozenset({"fit", "clone"})
#: Results go to stdout, everything else to stderr.
STDERR = Console(stderr=True, emoji=False)


class TextFormatter(logging.Formatter):
    """Formats log records as text, with unsafe characters escaped and traceback lines marked."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the message, preceded by its level."""
        record.message = visible(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return the traceback, whose lines are escaped since they may quote a server's message."""
        return lines(*(f"| {line}" for line in super().formatException(ei).split("\n")))


class JsonFormatter(logging.Formatter):
    """Formats log records as one JSON object per line, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON: time (UTC), level, message, and the fields in ``extra``."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line)


def configure(log_format: str, verbosity: int) -> None:
    """Send log lines to stderr as ``human`` text or ``json``.

    Verbosity -1 is quiet, 1 is verbose.
    """
    level = {-1: logging.ERROR, 0: logging.INFO}.get(verbosity, logging.DEBUG)
    handler: logging.Handler
    if log_format == "json":
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonFormatter())
    elif not STDERR.is_terminal:
        # Lines are not wrapped, so that paths and ids of releases are not split in a log file.
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(TextFormatter("%(levelname)-8s %(message)s"))
    else:
        handler = RichHandler(console=STDERR, show_path=False, show_time=False, markup=False)
        handler.setFormatter(TextFormatter("%(message)s"))
    LOG.handlers[:] = [handler]
    # What libraries warn of may quote a query.
    logging.lastResort = handler
    LOG.setLevel(level)
    LOG.propagate = False


def echo(
    text: str,
    *,
    err: bool = False,
    fg: str | None = None,
    color: bool | None = None,
    alarm: bool = False,
) -> None:
    """Print a line, or `privbench.display.Lines`, with the styles of `click.secho`.

    The first line of an ``alarm`` is red.
    """
    escaped = visible(text)
    if alarm:
        first, *others = escaped.split("\n", 1)
        escaped = "\n".join([click.style(first, "red"), *others])
    click.echo(click.style(escaped, fg) if fg else escaped, err=err, color=color)


def show(text: str) -> None:
    """Print a text even with ``--quiet``; in a JSON log it is one JSON line."""
    if any(isinstance(handler.formatter, JsonFormatter) for handler in LOG.handlers):
        LOG.log(max(LOG.level, logging.INFO), text)
    else:
        echo(text, err=True)


def width(stream: TextIO) -> int | None:
    """Return how many characters a line of the terminal has; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def ask(question: str, otherwise: PrivbenchError) -> None:
    """Ask a user at a terminal to confirm; raise the given error unless the answer is yes.

    Ctrl-C at the prompt raises KeyboardInterrupt.
    """
    if not sys.stdin.isatty():
        raise otherwise
    try:
        if not click.confirm(visible(question), err=True):
            raise otherwise
    except click.Abort:
        raise KeyboardInterrupt from None


def choose(question: str, answers: Sequence[str]) -> int:
    """Return the number of the answer that a user at a terminal chooses.

    The first is the default.
    """
    show(lines(question, *(f"  {number}: {text}" for number, text in enumerate(answers, 1))))
    try:
        return int(click.prompt("Number", 1, type=click.IntRange(1, len(answers)), err=True)) - 1
    except click.Abort:
        raise KeyboardInterrupt from None


class LogReporter(Reporter):
    """Reports progress as log lines: one per finished stage, and updates during long stages.

    ``arguments`` are the arguments of the command line.
    """

    _timer: Timer | None = None
    _where = ""
    #: Seconds until a long stage tells where it is, and between such lines.
    _pauses = (4.0, 29.0)

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        super().__init__()
        self._arguments = arguments

    def begin(self, name: str) -> None:
        """Start the clock of a stage; nothing is written yet."""
        self._where = name
        self._wait(self._pauses[0])

    def _wait(self, seconds: float) -> None:
        LogReporter.broken(self)
        self._timer = Timer(seconds, self._tell)
        self._timer.daemon = True
        self._timer.start()

    def _tell(self) -> None:
        stage, spent = self._where.partition(" ")[0], self.spending
        if stage == "learn" and spent and spent.release and spent.release.events:
            table, tables = spent.release.events[-1].table, spent.tables
            if table in tables:
                self.advance(f"{stage} {table}", 1 + tables.index(table), len(tables))
        # The stage may have ended meanwhile.
        if self._timer is current_thread():
            self._show()
            self._wait(self._pauses[1])

    def _show(self) -> None:
        LOG.info("%s", self._where)

    def advance(self, what: str, done: int, total: int | None = None) -> None:
        """Log how far a stage is, now and then: ``learn 4 of 15: public.orders``."""
        verb, _, name = what.partition(" ")
        count = f" {done:,}" + (f" of {total:,}" if total else "") if done else ""
        self._where = f"{verb}{count}" + (f": {name}" if name else "")

    def broken(self) -> None:
        """Stop reporting progress, since the command failed."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def end(self, name: str, seconds: float, peak: float) -> None:
        """Write the log line of a finished stage."""
        LogReporter.broken(self)
        fields = {"stage": name, "seconds": round(seconds, 3), "peak_mib": round(peak)}
        line = "%s: %.1f s, peak %.0f MiB"
        LOG.info(line, name, seconds, peak, extra={"fields": fields})

    def say(self, text: str) -> None:
        """Write a text as a log line."""
        LOG.info(text)

    def again(self, *options: str) -> str | None:
        """Return the command line with options added, for the user to paste.

        Passwords are hidden.
        """
        from privbench.postgres.connect import shown

        resumes = bool(_RESUMING & {*self._arguments})
        loads = not resumes and "load" in self._arguments
        if not resumes and (options or not loads):
            return None
        words, rest = [], iter(self._arguments)
        left_out = {"--another", "--pay-again", *(["--strict"] if self.offered else [])}
        if loads:
            # An unfinished load goes on without it.
            left_out.add("--replace")
        for word in rest:
            if word == "--resume":
                next(rest, None)
            elif not word.startswith("--resume=") and word not in left_out:
                words.append(shown(word))
        place = words.index("--") if "--" in words else len(words)
        return shlex.join(["privbench", *words[:place], *options, *words[place:]])

    def choose(self, error: PrivacyRefusal, releases: Sequence[str]) -> str | None:
        """Ask whether to resume an interrupted release, unless an option has decided that."""
        if ANOTHER.get():
            return None
        if not sys.stdin.isatty():
            raise error
        self.broken()
        show(error.message)
        answers = click.Choice(["resume", "another", "stop"])
        try:
            answer = click.prompt("Resume it, open another, or stop?", type=answers, err=True)
        except click.Abort:
            raise KeyboardInterrupt from None
        if answer == "stop":
            raise error
        return releases[-1] if answer == "resume" else None

    def exceed(self, text: str) -> None:
        """Show a warning and ask for consent, unless the command line has given consent."""
        self.broken()
        show(text)
        if not PAY_AGAIN.get():
            remedy = "Use --pay-again to go on."
            ask("Go on?", UsageError("the release costs more than was asked for.", remedy=remedy))

    def offer(self, error: PrivacyRefusal, text: str) -> None:
        """Ask at a terminal whether to continue, unless the command line has decided that."""
        if not (self.strict or self.agreed) and sys.stdin.isatty():
            self.broken()
            show(text)
            ask("Go on with the units as they are? Only the totals are spent.", error)
            self.offered = text
        else:
            super().offer(error, text)

    def warn(self, text: str) -> None:
        """Write a warning as log lines."""
        LOG.warning(text)


class BarReporter(LogReporter):
    """A line with a bar in a terminal, and one a stage when it is done.

    Below a cell of a notebook both are one text that changes.
    """

    _pauses = (0.5, 0.5)
    _share = 0.0
    _shown: Any = None  # what is updated; None until it is displayed

    def advance(self, what: str, done: int, total: int | None = None) -> None:
        """Note it, and its share of the whole."""
        super().advance(what, done, total)
        self._share = min(done / total, 1.0) if total else 0.0

    def end(self, name: str, seconds: float, peak: float) -> None:
        """Close the bar and leave a line."""
        self.broken()
        super().end(name, seconds, peak)
        self._where, self._share = "", 0.0
        if STDERR.is_jupyter:
            self._show()

    def _show(self) -> None:
        bar = f"{'█' * round(20 * self._share):░<20} " if self._share else ""
        where = [f"{bar}{self._where}"] if self._where else []
        if not STDERR.is_jupyter:
            if self._shown is None:
                self._shown = STDERR.status("")
                self._shown.start()
            self._shown.update(Text(visible(*where)))
            return
        done = (f"{name}: {seconds:.1f} s" for name, seconds, _ in self.stages)
        text = {"text/plain": visible(lines(*done, *where))}
        if self._shown is None:
            display = import_module("IPython.display").display
            self._shown = display(text, raw=True, display_id=True)
        else:
            self._shown.update(text, raw=True)

    def warn(self, text: str) -> None:
        """Write lines, in red in a terminal."""
        if STDERR.is_jupyter:
            show(text)
        else:
            STDERR.print(visible(text), style="red", markup=False, highlight=False, soft_wrap=True)

    def broken(self) -> None:
        """Remove the bar of a terminal before something else is printed."""
        super().broken()
        if self._shown is not None and not STDERR.is_jupyter:
            self._shown.stop()
            self._shown = None


def reporter(log_format: str, arguments: Sequence[str]) -> Reporter:
    """Return a reporter: bars on a terminal and in a notebook, log lines elsewhere."""
    if log_format == "human" and (STDERR.is_terminal or STDERR.is_jupyter):
        return BarReporter(arguments)
    return LogReporter(arguments)
