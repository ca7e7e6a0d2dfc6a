"""The Jinja templates of the report, and the filters that they use."""

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from privbench import display
from privbench.report import text


@cache
def _environment(package: str, folder: str, form: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        finalize=display.finalize(form),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    environment.policies["json.dumps_function"] = _json
    environment.filters |= {
        "number": text.number,
        "seconds": text.seconds,
        "percent": text.percent,
        "per_cent": text.per_cent,
        "share": text.share,
        "difference": text.difference,
        "coefficient": text.coefficient,
        "less": text.less,
        "joins": text.joins,
        "few": text.few,
        "code": display.code,
        "markdown": display.markdown,
    }
    return environment


def _json(data: Any, **options: Any) -> str:
    """JSON for a script that shows the texts in it."""
    return json.dumps(_shown(data), **options)


def _shown(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _shown(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_shown(item) for item in data]
    return display.visible(data, keep=" \n\t") if isinstance(data, str) else data


def template(name: str, package: str = "privbench.report", folder: str = "templates") -> Template:
    """Return the template of that name, HTML or Markdown; values that it prints are escaped.

    Values that are Markup are printed as they are.
    """
    return _environment(package, folder, name.split(".")[-2]).get_template(name)
