"""The Jinja templates of the report, and the filters that they use."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape

from privbench.report import text


@cache
def _environment(package: str, folder: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=select_autoescape(disabled_extensions=["md.j2"], default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.filters |= {
        "number": text.number,
        "seconds": text.seconds,
        "percent": text.percent,
        "joins": text.joins,
        "few": text.few,
    }
    return environment


def template(name: str, package: str = "privbench.report", folder: str = "templates") -> Template:
    """The template of that name; all but Markdown escape what they print unless it is Markup."""
    return _environment(package, folder).get_template(name)
