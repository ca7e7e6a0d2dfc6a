"""The page about the config file, from its JSON Schema and the docstrings of its sections."""

from __future__ import annotations

import json
import re
from typing import Any

from privbench.config import json_schema

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
    '[source.tables."schema.table"]': "SourceTableConfig",
    '[[source.tables."schema.table".foreign_keys]]': "ForeignKeyConfig",
}

_INTRO = """\
# Configuration

<!-- Written by scripts/docs from the program's own schema. Do not edit. -->

One TOML file. Whoever sees the clone may know the whole file: nothing in it may be read from
private rows. `privbench inspect SOURCE -o privbench.toml` writes a first one from the catalog
alone, `privbench check CONFIG SOURCE` compares it with the live schema, and
`privbench config-schema` prints its JSON Schema for editors. Unknown names are errors.

```toml
[database]
identity = "shop-production"

[privacy]
epsilon = 3.2
delta = 1e-9

[tables."public.customer"]
own = []                        # every row is the root of a privacy unit

[tables."public.order"]
own = ["customer_id"]           # rows go with their customer; other keys are references

[tables."public.order".columns.status]
kind = "categories"
values = ["open", "paid", "shipped"]

[tables."public.country"]
role = "public"                 # COPIED VERBATIM

[rules]
"public.order" = ["shipped >= ordered", "status <> 'paid' OR amount > 0"]
```"""

_RULES = """\
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


def configuration_page() -> str:
    """Every section with its settings, as Markdown."""
    definitions = json_schema()["$defs"]
    sections = [_section(title, definitions[name]) for title, name in _SECTIONS.items()]
    return "\n\n".join([_INTRO, *sections, _RULES]) + "\n"


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
