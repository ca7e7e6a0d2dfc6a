"""The Jinja templates of the HTML report, and the filters that they use."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from privbench.report import text


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("privbench.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": text.number,
        "seconds": text.seconds,
        "percent": text.percent,
    }
    return environment


def template(name: str) -> Template:
    """The template of that name; what it prints is escaped unless it is Markup."""
    return _environment().get_template(name)
