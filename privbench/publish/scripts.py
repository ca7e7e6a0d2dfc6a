"""The texts of a bundle that follow from its facts, rendered alike by who makes and who checks it.

Whoever checks a bundle renders these again and compares bytes: so no script, no readme and no
metadata of a stranger has to be read, or trusted, by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from privbench.errors import ModelError
from privbench.pipeline.literals import literals
from privbench.postgres.ddl import Ddl
from privbench.publish import catalogues, facts
from privbench.publish.accounts import unit_lines
from privbench.publish.facts import Bundle, Certificate, Sequence, Statistics, Table, quoted
from privbench.publish.judging import queries_text
from privbench.workload import Workload

_TEMPLATES = ("README.md", "certificate.md", "deployment.yaml", "compose.yaml", "start.sh")
#: Settings under which a server reads the rows and the DDL as they were written.
_SETTINGS = {
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "check_function_bodies": "off",
    "client_min_messages": "warning",
    "xmloption": "content",
    "row_security": "off",
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
    "search_path": "",
}


def rendered(
    bundle: Bundle,
    certificate: Certificate,
    ddl: Ddl,
    workload: Workload | None,
    statistics: Statistics | None,
    digests: Mapping[str, tuple[str, int]],
) -> dict[str, bytes]:
    """Every text of a bundle that follows from others, by its path.

    The digests are SHA-256 and size in bytes of every file of rows.
    """
    used = Counter(event.mechanism for event in certificate.events)
    shown = {
        "bundle": bundle,
        "certificate": certificate,
        "units": unit_lines(certificate),
        "mechanisms": [f"{number} × {name}" for name, number in sorted(used.items())],
        "literals": literals(ddl),
        "queries": len(workload) if workload else 0,
        "size": sum(size for _, size in digests.values()),
    }
    texts = {name: fill(name, **shown) for name in _TEMPLATES}
    texts["load.sql"] = load_script(bundle)
    texts["croissant.json"] = catalogues.croissant(bundle, digests)
    texts["datapackage.json"] = catalogues.data_package(bundle, digests)
    if statistics is not None:
        shown = {"statistics": statistics, "types": facts.STATISTIC_TYPES, "quoted": quoted}
        texts[facts.PLANNER] = fill(facts.PLANNER, **shown)
        texts["empty.sql"] = _script(f"\\i {facts.AFTER}", "COMMIT;", f"\\i {facts.PLANNER}")
    if workload is not None:
        texts[facts.QUERIES] = queries_text(workload.queries)
    return {path: text.encode() for path, text in texts.items()}


def fill(name: str, **shown: Any) -> str:
    """The text that a template gives."""
    return _environment().get_template(f"{name}.j2").render(shown)


def load_script(bundle: Bundle) -> str:
    """What psql runs to make the database, all or nothing, in an empty one."""
    filled = [*bundle.tables, *bundle.views]
    return _script(
        *(line for table in bundle.tables for line in _rows(table)),
        f"\\i {facts.AFTER}",
        *(_setval(sequence) for sequence in bundle.sequences),
        *(f"REFRESH MATERIALIZED VIEW {view.sql};" for view in bundle.views),
        "COMMIT;",
        *(f"VACUUM (ANALYZE) {item.sql};" for item in filled),
    )


def _script(*lines: str) -> str:
    """A script for psql that goes on so from the tables."""
    settings = (f"SET {name} = '{value}';" for name, value in _SETTINGS.items())
    head = ("\\set ON_ERROR_STOP on", *settings, "BEGIN;", f"\\i {facts.BEFORE}")
    return "\n".join((*head, *lines)) + "\n"


def _rows(table: Table) -> list[str]:
    if not table.columns:
        series = f"pg_catalog.generate_series(1, {table.rows})"
        return [f"INSERT INTO {table.sql} SELECT FROM {series};"]
    columns = ", ".join(quoted(column.name) for column in table.columns)
    return [
        f"\\copy {table.sql} ({columns}) from '{path}' with (format csv, header true)"
        for path in table.files("csv")
    ]


def _setval(sequence: Sequence) -> str:
    name, called = sequence.sql.replace("'", "''"), str(sequence.called).lower()
    return f"SELECT pg_catalog.setval('{name}', {sequence.value}, {called}) \\g /dev/null"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("privbench.publish"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  Markdown, YAML and a script
    )
    made.filters["json"] = partial(json.dumps, ensure_ascii=False)
    made.filters["literal"] = _literal
    made.filters["cell"] = lambda text: " ".join(text.replace("|", "\\|").split())
    return made


def _literal(text: str) -> str:
    """A constant in SQL; psql would end a line at a NUL, within quotes too."""
    if "\0" in text:
        raise ModelError("a text has a NUL, which PostgreSQL cannot hold.")
    return "'" + text.replace("'", "''") + "'"
