"""Writes both ``cli.md``, ``docs/configuration.md`` and ``docs/mechanisms.md`` from the program.

scripts/docs runs it.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
from mechanisms_page import mechanisms_page

from privbench import plugins
from privbench.cli.main import main as group
from privbench.config import json_schema

ROOT = Path(__file__).parents[1]


@cache
def pages() -> dict[str, str]:
    """The generated pages by their place in a checkout; the lab's if it is installed."""
    added = plugins.names(plugins.COMMANDS)
    lab = {"lab/docs/cli.md": cli_page(_LAB_INTRO, added)} if added else {}
    own = [name for name in group.list_commands(click.Context(group)) if name not in added]
    core = cli_page(f"{_CLI_INTRO}\n\n{_overview(own)}\n\n## privbench\n\n{_body(group)}", own)
    own_pages = {
        "docs/configuration.md": configuration_page(),
        "docs/mechanisms.md": mechanisms_page(),
    }
    return {"docs/cli.md": core, **own_pages, **lab}


def cli_page(intro: str, names: Iterable[str]) -> str:
    """These commands with their help, example, arguments and options, as Markdown."""
    begins = tuple(f"privbench {name} " for name in names)
    chosen = [item for item in commands(group) if f"{item[0]} ".startswith(begins)]
    return "\n\n".join([intro, *(f"## {name}\n\n{_body(item)}" for name, item in chosen)]) + "\n"


def commands(parent: click.Group, path: str = "privbench") -> Iterator[tuple[str, click.Command]]:
    """Full names and commands of a group, subcommands after their group."""
    context = click.Context(parent)
    for name in parent.list_commands(context):
        command = parent.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def parts(command: click.Command) -> tuple[str, str]:
    """A command's help text and its example, apart; either may be empty."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    prose, _, example = text.partition("Example:\n")
    return prose.strip(), inspect.cleandoc(example)


_CLI_INTRO = """\
# Command line

<!-- Written by scripts/docs from the program's own help. Do not edit. -->

SOURCE, TARGET and DSN follow libpq's rules: a URI (`postgresql://host/db`), `key=value` pairs,
`service=NAME`, and the `PG*` variables and password file for what is left out. `privbench` reads
the source in one read-only transaction and never writes to it.

A shell completes commands and options after one of these lines; bash has to be 4.4 or later, which
macOS's own is not:

```bash
echo 'eval "$(_PRIVBENCH_COMPLETE=bash_source privbench)"' >> ~/.bashrc
echo 'eval "$(_PRIVBENCH_COMPLETE=zsh_source privbench)"' >> ~/.zshrc   # after compinit
_PRIVBENCH_COMPLETE=fish_source privbench > ~/.config/fish/completions/privbench.fish
```"""


#: Of every command: whether it reads rows of the source, and whether it spends budget.
_ACCESS = {
    "demo": ("its own", "its own"),
    "doctor": ("no", "no"),
    "inspect": ("no", "no"),
    "check": ("no", "no"),
    "plan": ("no", "no"),
    "fit": ("yes", "**yes**"),
    "sample": ("no", "no"),
    "load": ("no", "no"),
    "clone": ("yes", "**yes**"),
    "publish": ("no", "no"),
    "verify": ("no", "no"),
    "serve": ("no", "no"),
    "workload": ("if it is given one", "no"),
    "run": ("if that is the source", "no"),
    "compare": ("yes", "no"),
    "ledger": ("no", "no"),
    "config-schema": ("no", "no"),
    "compare-schema": ("no", "no"),
}


def _overview(names: Iterable[str]) -> str:
    """A table of commands: the first sentence of each one's help, and what it reads and spends."""
    lines = ["| command | what it does | reads rows of the source | spends budget |"]
    lines.append("|---|---|---|---|")
    for name in names:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        summary = parts(command)[0].partition("\n\n")[0].rstrip(".")
        reads, spends = _ACCESS[name]
        lines.append(f"| [`{name}`](#privbench-{name}) | {summary} | {reads} | {spends} |")
    return "\n".join(lines)


_LAB_INTRO = """\
# Command line of the lab

<!-- Written by scripts/docs from the program's own help. Do not edit. -->

These commands are there once `privbench-lab` is installed; the others are in
[the tool's own page](../../docs/cli.md)."""


def _body(command: click.Command) -> str:
    prose, example = parts(command)
    blocks = [prose, f"```bash\n{example}\n```" if example else ""]
    blocks += [_table(command, click.Argument), _table(command, click.Option)]
    return "\n\n".join(block for block in blocks if block)


def _table(command: click.Command, kind: type[click.Parameter]) -> str:
    rows = [_row(parameter) for parameter in command.params if isinstance(parameter, kind)]
    if not rows:
        return ""
    if kind is click.Argument:
        return "Arguments: " + ", ".join(name for name, _ in rows) + "."
    return "\n".join(["| option | meaning |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)])


def _row(parameter: click.Parameter) -> tuple[str, str]:
    if not isinstance(parameter, click.Option):
        name = (parameter.metavar or parameter.name or "").upper()
        return f"`{name}`" + ("" if parameter.required else " (optional)"), ""
    name = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if not parameter.is_flag and not parameter.count:
        name += f" {_metavar(parameter)}"
    return f"`{name}`".replace("|", "\\|"), f"{parameter.help or ''}{_notes(parameter)}"


def _metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice) and option.metavar is None:
        return "|".join(str(choice) for choice in option.type.choices)
    return option.metavar or option.type.name.upper()


def _notes(option: click.Option) -> str:
    notes = ["required"] if option.required else []
    notes += ["may be repeated"] if option.multiple or option.count else []
    extra = option.get_help_extra(click.Context(group, show_default=True))
    notes += [f"default `{extra['default']}`"] if "default" in extra else []
    return f" ({', '.join(notes)})" if notes else ""


_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.M)

#: Heading and section of the schema, in the order of the page.
_SECTIONS = {
    "[database]": "DatabaseConfig",
    "[privacy]": "PrivacyConfig",
    "[ledger]": "LedgerConfig",
    "[counting]": "CountingConfig",
    "[synthesizer]": "SynthesizerConfig",
    '[tables."schema.table"]': "TableConfig",
    '[tables."schema.table".columns.name]': "ColumnConfig",
    '[[tables."schema.table".references]]': "ReferenceConfig",
    '[tables."schema.table".references.to]': "TargetConfig",
    '[source.tables."schema.table"]': "SourceTableConfig",
    '[[source.tables."schema.table".foreign_keys]]': "ForeignKeyConfig",
}

_CONFIG_INTRO = """\
# Configuration

<!-- Written by scripts/docs from the program's own schema. Do not edit. -->

One TOML file. Whoever sees the clone may know the whole file: nothing in it may be read from
private rows. `privbench inspect SOURCE -o privbench.toml` writes a first one from the catalog
alone, `privbench check SOURCE -c CONFIG` compares it with the live schema, and
`privbench config-schema` prints its JSON Schema for editors. Unknown names are errors. Ready files
for well-known data sets are in [schemas](../schemas/README.md).

```toml
[database]
identity = "shop-production"    # replicas and restores share it, and its ledger

[privacy]
epsilon = 3.2
delta = 1e-9

[ledger]
cap_epsilon = 10.0              # the release that would pass it is refused

[tables."public.customer"]
own = []                        # every row is the root of a privacy unit

[tables."public.order"]
own = ["customer_id"]           # rows go with their customer; other keys are references

[[tables."public.order".references]]      # a key for which the database has no constraint
columns = ["shop_no"]
to = { table = "public.shop", columns = ["shop_no"] }
none = [0]                      # 0 means none, whatever the table has

[tables."public.order".columns.status]
kind = "categories"
values = ["open", "paid", "shipped"]

[tables."public.order".columns.priority]
kind = "range"                  # public bounds, known from the form
min = 1
max = 5

[tables."public.country"]
role = "public"                 # COPIED VERBATIM

[words]
person = ["azubi", "azubis"]    # what an azubi owns is proposed as a person's

[rules]
"public.order" = ["shipped >= ordered", "status <> 'paid' OR amount > 0"]

[computed."public.order"]
amount = "(SELECT sum(l.qty * l.price) FROM public.line l WHERE l.order_id = this.id)"
```"""

_RULES = """\
## `[words]`

Words of yours in names of tables and columns, for the proposal of roles: by an English word of the
[lists](roles.md#words-of-your-own), the words that are read as it.

## `[rules]`

By table, a list of SQL conditions on its columns that every row of the clone keeps, as if each were
a CHECK constraint of the table. It says what columns may hold before rows are seen, it comes along
as the constraint `privbench_rule_N`, and rows that break it are
[repaired in the load](any-schema.md#checks), whose report says how many rows of each table were
changed or lost, and which rules most rows break for all that. Rules are public. Whether the
source's rows keep them is never looked at.

A rule names columns without their table, and functions, operators and types of PostgreSQL's own
that only compute: no queries, no aggregates, nothing of users or extensions. Like a CHECK it is
kept where it is NULL. Any other rule is an error of `check`, `plan`, `fit` and `clone`, before
anything is spent, and so is a rule of a public table."""

_COMPUTED = """\
## `[computed."schema.table"]`

By column, the SQL expression that gives its value in every row of the clone. `this` is the row.
Such columns cost no budget: they are never read. [rules.md](rules.md) has examples, and says what
an expression may do and what happens where it fails."""


def configuration_page() -> str:
    """Every section with its settings, as Markdown."""
    definitions = json_schema()["$defs"]
    sections = [_section(title, definitions[name]) for title, name in _SECTIONS.items()]
    return "\n\n".join([_CONFIG_INTRO, *sections, _RULES, _COMPUTED]) + "\n"


def settings(definition: dict[str, Any]) -> dict[str, str]:
    """What a section's docstring says of each of its settings."""
    return {
        name: " ".join(meaning.split())
        for name, meaning in _ATTRIBUTE.findall(definition.get("description", ""))
    }


def _section(title: str, definition: dict[str, Any]) -> str:
    meanings = settings(definition)
    summary = definition.get("description", "").partition("\n\n")[0]
    lines = [f"## `{title}`", "", " ".join(summary.split()), ""]
    lines += ["| setting | values | default | meaning |", "|---|---|---|---|"]
    for name, rule in definition["properties"].items():
        meaning = meanings.get(name, "").replace("``", "`").replace("|", "\\|")
        lines.append(f"| `{name}` | {_values(rule)} | {_default(rule)} | {meaning} |")
    return "\n".join(lines)


def _values(rule: dict[str, Any]) -> str:
    if "anyOf" in rule:
        kinds = [_values(item) for item in rule["anyOf"] if item.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in rule:
        return ", ".join(f"`{value}`" for value in rule["enum"])
    if rule.get("type") == "array":
        return f"list of {_values(rule['items'])}"
    if "$ref" in rule or rule.get("type") == "object":
        return "table"
    return f"{rule.get('type', 'any')}{_bounds(rule)}"


def _bounds(rule: dict[str, Any]) -> str:
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    found = [f"{sign} {rule[name]:g}" for name, sign in signs.items() if name in rule]
    return f" {', '.join(found)}" if found else ""


def _default(rule: dict[str, Any]) -> str:
    value = rule.get("default")
    return "" if value in (None, [], {}) else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    for page, text in pages().items():
        (ROOT / page).write_text(text, encoding="utf-8")
        click.echo(f"wrote {page}")
