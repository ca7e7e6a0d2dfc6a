"""Command-line options that several commands share, and the exit codes of errors."""

from __future__ import annotations

import errno
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

import click

from privbench import __version__, pipeline
from privbench.cli.console import LOG, reporter
from privbench.display import lines, visible
from privbench.errors import ConfigError, PrivbenchError, UsageError
from privbench.options import LoadOptions
from privbench.pipeline.progress import Reporter

if TYPE_CHECKING:
    from privbench.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])
#: A figure for ``--metrics``: name without prefix, help, labels, value.
MetricSample = tuple[str, str, Mapping[str, str], float]

#: From where on a message of Click may hold a connection string.
_SECRET = re.compile(r"(://|\w\s*=|extra arguments? \().*", re.DOTALL)
#: Error numbers of a full disk.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass
class CommandState:
    """The values of the global options, which every command can read."""

    log_format: str = "human"
    verbosity: int = 0
    arguments: tuple[str, ...] = ()  # the command line, without the program
    #: What the command found, for ``--metrics``.
    samples: list[MetricSample] = field(default_factory=list)

    @functools.cached_property
    def reporter(self) -> Reporter:
        """Return a progress reporter for the chosen log format."""
        return reporter(self.log_format, self.arguments)


@contextmanager
def arguments_hidden() -> Iterator[None]:
    """Hide, within this context, what may be a password in Click's error messages."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = visible(_SECRET.sub(r"\1…", error.message))
        raise


def exit_code(error: BaseException) -> int:
    """Return the exit code of the process for an error."""
    if isinstance(error, PrivbenchError | click.ClickException | click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return 130
    full = isinstance(error, OSError) and error.errno in _FULL
    return UsageError.exit_code if full else PrivbenchError.exit_code


def show_error(error: BaseException, arguments: Sequence[str]) -> None:
    """Log an error as one line; of internal errors only the type, since messages may be private."""
    if isinstance(error, PrivbenchError):
        message = _without_secrets(str(error), arguments)
        LOG.error("%s", message, extra={"fields": {"error": type(error).__name__}})
    elif isinstance(error, KeyboardInterrupt):
        LOG.error("interrupted.")
    elif isinstance(error, OSError) and error.errno in _FULL:
        LOG.error("%s cannot be written: %s.", error.filename or "a file", error.strerror)
    else:
        # The message of a library may quote private data, so only the type of the error is shown.
        LOG.error(
            "internal error: %s (privbench %s). Run again with -v and keep its output private.",
            type(error).__name__,
            __version__,
        )


def _without_secrets(text: str, arguments: Sequence[str]) -> str:
    """A message, in which a connection string that was given for a file is no more than `shown`."""
    from privbench.postgres.connect import shown

    safe_text = text
    for argument in {part for word in arguments for part in (word, word.partition("=")[2])}:
        if (safe := shown(argument, "options")) != argument:
            for spelled in map(visible, (argument.strip(), str(Path(argument.strip())))):
                safe_text = safe_text.replace(spelled, safe)
    return text if safe_text == text else lines(*safe_text.split("\n"))


def with_options(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return a decorator that adds the given options to a command, in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def options_of(kind: type, *names: str, without: str = "") -> Callable[[Command], Command]:
    """Return a decorator that adds options for named fields of an options class; default all."""
    hints = get_type_hints(kind)
    chosen = (item for item in fields(kind) if item.name in (names or hints.keys() - {without}))
    return with_options(*(_of_field(item, hints[item.name]) for item in chosen))


def _of_field(item: Field[Any], hint: Any) -> Callable[[Any], Any]:
    """The option that a field describes."""
    about = dict(item.metadata)
    flags, least, most = about.pop("flags"), about.pop("least", None), about.pop("most", None)
    check, flag = about.pop("check", None), f"--{item.name.replace('_', '-')}"
    if isinstance(item.default, bool):
        about["is_flag"] = True
        flag += f"/--no-{flag[2:]}" * item.default
    elif isinstance(item.default, tuple):
        about["multiple"] = True
    elif hint in (int, int | None):
        about["type"] = int if least is None else click.IntRange(least, most)
    elif hint is float:
        about["type"] = float if least is None else click.FloatRange(least, most)
    if check:
        about["callback"] = _checked_by(check)
    return click.option(*(flags or (flag,)), item.name, default=item.default, **about)


def _checked_by(place: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that has a function, ``module:name``, refuse a value; it is imported then."""

    def check(context: click.Context, option: click.Parameter, value: Any) -> Any:
        resolve_name(place)(value)
        return value

    return check


def gathered(
    make: Callable[..., dict[str, Any]], *options: Callable[[Any], Any]
) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command and passes their values as one object.

    The object is what ``make`` returns for the values.
    """
    alone = click.command()(with_options(*options)(lambda: None))
    names = [option.name for option in alone.params if option.expose_value]

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def called(*args: Any, **given: Any) -> Any:
            values = {str(name): given.pop(str(name)) for name in names}
            return command(*args, **make(**values), **given)

        return with_options(*options)(cast("Command", called))

    return add


def fail_if_option(examples: str) -> Callable[[Any], Any]:
    """Add the option ``--fail-if``, whose values become the argument ``gates``.

    Its help shows examples.
    """
    meaning = f"Exit code 1 if it holds: {examples}."
    return click.option("--fail-if", "gates", multiple=True, metavar="COND", help=meaning)


def _setting(place: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """A callback that sets a context variable, ``module:name``, for as long as the command runs.

    The module is imported then, since a command that only shows its help needs no libraries.
    """

    def set_(context: click.Context, option: click.Parameter, value: Any) -> None:
        variable = resolve_name(place)
        token = variable.set(value)
        context.call_on_close(lambda: variable.reset(token))

    return set_


#: The range of time limits that PostgreSQL accepts, in seconds.
SECONDS = click.FloatRange(0, 2_000_000)
lock_option = click.option(
    "--lock-wait-timeout",
    type=SECONDS,
    default=30.0,
    metavar="SECONDS",
    expose_value=False,
    callback=_setting("privbench.postgres.reading:WAIT"),
    help="Wait so long for a table that others have locked.",
)

jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    expose_value=False,
    callback=_setting("privbench.threads:JOBS"),
    help="Use so many connections, and so many cores.  [default: one to a source, up to four to a "
    "target; all cores]",
)


network_option = click.option(
    "--trust-network",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_setting("privbench.privacy.workers:TRUST_NETWORK"),
    help="Let a Dask scheduler on another machine be reached without TLS: whoever reaches it runs "
    "programs as you, and rows and passwords cross the network in clear.",
)
config_option = click.option("-c", "--config", "config_path", metavar="FILE", help="Config (TOML).")
identity_option = click.option(
    "--identity",
    metavar="NAME",
    help="The source's name for the ledger, as under [database]; files need one.",
)
epsilon_option = click.option("--epsilon", type=float, metavar="E", help="ε of the whole release.")
delta_option = click.option("--delta", type=float, metavar="D", help="δ of the whole release.")
synthesizer_option = click.option("--synthesizer", metavar="NAME", help="Learner to use.")
ledger_option = click.option("--ledger", metavar="DIR", help="Directory of the ledger.")
lookups_option = click.option(
    "--lookups",
    type=click.Choice(["private", "public"]),
    default="private",
    help="The role of tables that look like look-ups, in a proposal.",
)
apart_option = click.option(
    "--apart-from",
    multiple=True,
    metavar="NAME",
    help="The identity of other data whose server states the same identifier: not counted here.",
)
monthly_option = click.option(
    "--max-epsilon-per-month",
    type=click.FloatRange(0, min_open=True),
    metavar="E",
    help="Refuse a release that takes the ε of its calendar month (UTC) past this.",
)
sampling_options = options_of(LoadOptions, "scale", "seed")
scale_table_option = click.option(
    "--scale-table",
    "factors",
    multiple=True,
    metavar="TABLE=N",
    callback=lambda _, option, pairs: pipeline.parse_rows(pairs, option.opts[0]),
    help="Besides, make a table N times as large, with all that it owns; may be repeated.",
)
overwrite_option = click.option(
    "--force", is_flag=True, help="Replace a model file that is there already."
)


@dataclass(frozen=True)
class ReleaseOptions:
    """The command-line options that configure a release."""

    config_path: str | None  # the config file, if there is one
    lookups: str  # the role of look-up tables in a proposal
    yes: bool  # whether a proposal is accepted unseen
    resume: str | None  # id of a release to go on with
    since: str | None  # an earlier model to start from
    settings: dict[str, Any]  # what the other options change of the config; see `read_config`

    def config(self) -> Config:
        """Return the config of the release; raise an error if nothing gives ε."""
        from privbench.privacy.workers import require_closed

        config = pipeline.require_epsilon(read_config(self.config_path, **self.settings))
        require_closed(config.counting.where)
        return config


#: Options that select tables as pg_dump does; passed on as ``schemas``, ``tables``, ``excluded``.
choice_options = with_options(
    *(
        click.option(short, long, name, multiple=True, metavar="PATTERN", help=meaning)
        for short, long, name, meaning in (
            ("-n", "--schema", "schemas", "Only these schemas."),
            ("-t", "--table", "tables", "Only these tables and views."),
            ("-T", "--exclude-table", "excluded", "Leave these tables and views out."),
        )
    )
)
strict_option = click.option(
    "--strict", is_flag=True, help="Exit code 1 if the clone lacks anything of the schema."
)


def _source_first(source: str, config_path: str | None, second: str | None) -> dict[str, Any]:
    """Read SOURCE -c CONFIG, or CONFIG SOURCE as earlier versions did."""
    if config_path is None and (second is not None or source.endswith(".toml")):
        config_path, source = source, second or ""
    elif second is not None:
        raise click.UsageError("Got an unexpected extra argument: take SOURCE -c CONFIG.")
    return {"source": source, "config_path": config_path}


#: ``SOURCE -c CONFIG``.
source_arguments = gathered(
    _source_first,
    click.argument("source", default=""),
    click.argument("second", required=False, metavar=""),
    config_option,
)
#: Options that change the config, in the order of their sections, and the field of each.
_SETTINGS = {
    "identity": ("database", "identity"),
    "schemas": ("database", "schemas"),
    "tables": ("database", "tables"),
    "excluded": ("database", "exclude"),
    "epsilon": ("privacy", "epsilon"),
    "delta": ("privacy", "delta"),
    "seed": ("privacy", "seed"),
    "synthesizer": ("synthesizer", "name"),
    "ledger": ("ledger", "path"),
    "max_epsilon_per_month": ("ledger", "max_epsilon_per_month"),
    "apart_from": ("ledger", "apart_from"),
    "count_on": ("counting", "where"),
}


#: The options of a release, handed to the command as ``release: ReleaseOptions``.
release_options = gathered(
    lambda config_path, lookups, yes, resume, since, **settings: {
        "release": ReleaseOptions(config_path, lookups, yes, resume, since, settings)
    },
    config_option,
    identity_option,
    epsilon_option,
    delta_option,
    synthesizer_option,
    lookups_option,
    click.option("--yes", is_flag=True, help="Accept the proposed roles without asking."),
    click.option(
        "--seed",
        type=int,
        metavar="N",
        help="Seed the noise. The release is then stamped NOT PRIVATE.",
    ),
    ledger_option,
    monthly_option,
    apart_option,
    click.option(
        "--count-on",
        metavar="WHERE",
        help="Where rows are counted: local, or by a Dask scheduler as tls://host:port.",
    ),
    click.option("--resume", metavar="ID", help="Go on with an unfinished release."),
    click.option(
        "--another",
        is_flag=True,
        expose_value=False,
        callback=_setting("privbench.cli.console:ANOTHER"),
        help="Open another release although one of the same fit is unfinished; it holds as much.",
    ),
    click.option(
        "--since",
        metavar="MODEL",
        help="Start from this released model, and measure only what a noisy test says has changed.",
    ),
    click.option(
        "--pay-again",
        is_flag=True,
        expose_value=False,
        callback=_setting("privbench.cli.console:PAY_AGAIN"),
        help="Go on too if answers were lost, which makes a resumed release cost more.",
    ),
    network_option,
    choice_options,
    jobs_option,
    lock_option,
)


def read_config(path: str | None, **settings: Any) -> Config:
    """Read the config file, or take an empty config, and apply the options listed in `_SETTINGS`.

    Options that are None or () change nothing.
    """
    from privbench.config import Config

    config = Config.load(path) if path else Config()
    overrides = {name: value for name, value in settings.items() if value not in (None, ())}
    declared, cap = config.database.identity, config.ledger.max_epsilon_per_month
    if declared is not None and overrides.get("identity", declared) != declared:
        raise ConfigError("--identity and [database] identity of the config differ.")
    if "excluded" in overrides:
        overrides["excluded"] = [*config.database.exclude, *overrides["excluded"]]
    if "apart_from" in overrides:
        overrides["apart_from"] = [*config.ledger.apart_from, *overrides["apart_from"]]
    if "max_epsilon_per_month" in overrides and cap is not None:
        # The command line may lower the config's cap on a month, not raise it.
        overrides["max_epsilon_per_month"] = min(cap, overrides["max_epsilon_per_month"])
    sections: dict[str, dict[str, Any]] = {section: {} for section, _ in _SETTINGS.values()}
    for name, value in overrides.items():
        section, key = _SETTINGS[name]
        sections[section][key] = value
    for section, changes in sections.items():
        config = config.changed(section, **changes)
    return config
