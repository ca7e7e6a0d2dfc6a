"""The Jinja templates of the HTML report, and the filters that they use."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from privbench.report import text


@cache
def _environment(package: str, folder: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": text.number,
        "seconds": text.seconds,
        "percent": text.percent,
        "joins": text.joins,
    }
    return environment


def template(name: str, package: str = "privbench.report", folder: str = "templates") -> Template:
    """The template of that name; what it prints is escaped unless it is Markup."""
    return _environment(package, folder).get_template(name)
