"""The texts of a bundle that follow from its JSON files; `publish` and `verify` render them alike.

`verify` renders them again and compares bytes, so that no script, readme or metadata of a stranger
has to be read or trusted.
"""

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from privbench import display
from privbench.errors import ModelError
from privbench.pipeline.literals import literals
from privbench.postgres.ddl import Ddl
from privbench.publish import records
from privbench.publish.accounts import unit_lines
from privbench.publish.croissant import croissant
from privbench.publish.judging import queries_text
from privbench.publish.records import Bundle, Certificate, PublishedStatistics
from privbench.schema import literal, quoted
from privbench.workload import Workload

_TEMPLATES = (
    "README.md", "certificate.md", "deployment.yaml", "compose.yaml", "Dockerfile", "start.sh",
    "load.sql",
)  # fmt: skip
#: Characters of a stranger's text beside the verdict of `verify`.
_SHORT = 40
#: Templates whose values are printed for people; those of SQL, YAML and sh quote by filters.
_OF_PEOPLE = frozenset({"md", "txt"})
#: Files that only a bundle with statistics has.
_OF_EMPTY = (records.PLANNER, "empty.sql")


def rendered(
    bundle: Bundle,
    certificate: Certificate,
    ddl: Ddl,
    workload: Workload | None,
    statistics: PublishedStatistics | None,
    digests: Mapping[str, tuple[str, int]],
) -> dict[str, bytes]:
    """Return every text of a bundle that follows from others, by its path.

    The digests are SHA-256 and size in bytes of every file of rows.
    """
    used = Counter(event.mechanism for event in certificate.events)
    context = {
        "bundle": bundle,
        "certificate": certificate,
        "units": unit_lines(certificate),
        "mechanisms": [f"{number} × {name}" for name, number in sorted(used.items())],
        "literals": literals(ddl),
        "queries": len(workload) if workload else 0,
        "size": sum(size for _, size in digests.values()),
        "statistics": statistics,
        "types": records.STATISTIC_TYPES,
    }
    names = (*_TEMPLATES, *(_OF_EMPTY if statistics is not None else ()))
    texts = {name: fill(name, **context) for name in names}
    texts["croissant.json"] = croissant(bundle, digests)
    if workload is not None:
        texts[records.QUERIES] = queries_text(workload.queries)
    return {path: text.encode() for path, text in texts.items()}


def fill(name: str, **shown: Any) -> str:
    """Render a template with values."""
    return _environment(name.rpartition(".")[2]).get_template(f"{name}.j2").render(shown)


@cache
def _environment(form: str) -> Environment:
    environment = Environment(
        loader=PackageLoader("privbench.publish"),
        finalize=display.finalize(form) if form in _OF_PEOPLE else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=form == "md",  # noqa: S701  the others are no markup
    )
    environment.filters |= {"json": _json, "literal": _literal, "identifier": quoted}
    environment.filters |= {"code": display.code, "code_block": display.code_block}
    environment.filters["short"] = _one_line
    return environment


def _one_line(text: str) -> str:
    """A text of the bundle's author, so short that no terminal wraps the line in it."""
    escaped = display.visible(text)
    return f"{escaped[:_SHORT]}…" if len(escaped) > _SHORT else escaped


def _json(data: Any) -> str:
    """JSON that is YAML, too."""
    return display.toml_visible(json.dumps(data, ensure_ascii=False))


def _literal(text: str) -> str:
    """A text as an SQL constant. A NUL is refused: psql would end the line there, even quoted."""
    if "\0" in text:
        raise ModelError("a text has a NUL, which PostgreSQL cannot hold.")
    return literal(text)
