"""The texts of a bundle that follow from its facts, rendered alike by who makes and who checks it.

Whoever checks a bundle renders these again and compares bytes: so no script, no readme and no
metadata of a stranger has to be read, or trusted, by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from privbench.pipeline.literals import literals
from privbench.postgres.ddl import Ddl
from privbench.publish import catalogues, facts
from privbench.publish.accounts import paragraphs, rows_of_events, unit_lines
from privbench.publish.facts import Bundle, Certificate, Sequence, Table
from privbench.publish.judging import queries_text
from privbench.publish.registry import deployment
from privbench.workload import Workload

README, START, COMPOSE, LOAD = "README.md", "start.sh", "compose.yaml", "load.sql"
CROISSANT, PACKAGE = "croissant.json", "datapackage.json"
STATEMENT, REGISTRY = "certificate.md", "deployment.yaml"

_SETTINGS = """\
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET backslash_quote = safe_encoding;
SET check_function_bodies = off;
SET client_min_messages = warning;
SET xmloption = content;
SET row_security = off;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';
SET lc_monetary = 'C';
SELECT pg_catalog.set_config('search_path', '', false) \\g /dev/null
"""


def rendered(
    bundle: Bundle,
    certificate: Certificate,
    ddl: Ddl,
    workload: Workload | None,
    digests: Mapping[str, tuple[str, int]],
) -> dict[str, bytes]:
    """Every text of a bundle that follows from others, by its path.

    Args:
        bundle: What it holds.
        certificate: What the release guarantees.
        ddl: Its DDL.
        workload: Its workload, if it has one.
        digests: SHA-256 and size of every file of rows.
    """
    shown = {
        "bundle": bundle,
        "certificate": certificate,
        "paragraphs": paragraphs(certificate),
        "units": unit_lines(certificate),
        "events": rows_of_events(certificate),
        "literals": literals(ddl),
        "queries": len(workload) if workload else 0,
        "rows": sum(table.rows for table in bundle.tables),
        "size": sum(size for _, size in digests.values()),
    }
    texts = {
        README: _template("README.md.j2").render(shown),
        STATEMENT: _template("certificate.md.j2").render(shown),
        START: _template("start.sh").render(shown),
        COMPOSE: _template("compose.yaml.j2").render(shown),
        LOAD: load_script(bundle),
        CROISSANT: catalogues.croissant(bundle, digests),
        PACKAGE: catalogues.data_package(bundle, digests),
        REGISTRY: deployment(bundle, certificate),
    }
    if workload is not None:
        texts[facts.QUERIES] = queries_text(workload.queries)
    return {path: text.encode() for path, text in texts.items()}


def load_script(bundle: Bundle) -> str:
    """What psql runs to make the database, all or nothing, in an empty one."""
    lines = ["\\set ON_ERROR_STOP on", _SETTINGS + "BEGIN;", f"\\i {facts.BEFORE}"]
    lines += [line for table in bundle.tables for line in _rows(table)]
    lines.append(f"\\i {facts.AFTER}")
    lines += [_setval(sequence) for sequence in bundle.sequences]
    views = [quoted(view.schema_, view.name) for view in bundle.views]
    lines += [f"REFRESH MATERIALIZED VIEW {view};" for view in views]
    tables = [quoted(table.schema_, table.name) for table in bundle.tables]
    lines += ["COMMIT;", *(f"VACUUM (ANALYZE) {name};" for name in (*tables, *views)), ""]
    return "\n".join(lines)


def quoted(*names: str) -> str:
    """A qualified name in SQL."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _rows(table: Table) -> list[str]:
    name = quoted(table.schema_, table.name)
    if not table.columns:
        series = f"pg_catalog.generate_series(1, {table.rows})"
        return [f"INSERT INTO {name} SELECT FROM {series};"]
    columns = ", ".join(quoted(column.name) for column in table.columns)
    return [
        f"\\copy {name} ({columns}) from '{path}' with (format csv, header true)"
        for path in table.files("csv")
    ]


def _setval(sequence: Sequence) -> str:
    name = quoted(sequence.schema_, sequence.name).replace("'", "''")
    called = "true" if sequence.called else "false"
    return f"SELECT pg_catalog.setval('{name}', {sequence.value}, {called}) \\g /dev/null"


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("privbench.publish"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  Markdown, and names in code
    )


def _template(name: str):  # type: ignore[no-untyped-def]
    return _environment().get_template(name)
