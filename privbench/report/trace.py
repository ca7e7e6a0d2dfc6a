"""Print each figure with its place in comparison.json."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from markupsafe import Markup

from privbench.display import visible
from privbench.report import text
from privbench.report.document import ComparisonDocument

Step = str | int


def _coefficient(value: float | None) -> str:
    """Two decimals; no minus before a zero."""
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}"


def _share(value: float | None) -> str:
    """Per cent, short: two digits below 10 %."""
    if value is None or value >= 0.1:
        return text.percent(value)
    return f"{100 * value:.2g} %"


#: Ways to print a figure of the document.
FORMS: Final[dict[str, Callable[[Any], str]]] = {
    "number": text.number,
    "seconds": text.seconds,
    "milliseconds": lambda value: text.seconds(None if value is None else value / 1000),
    "percent": text.percent,
    "share": _share,
    "per-cent": text.per_cent,
    "times": lambda value: "–" if value is None else f"{text.number(value)} ×",
    "coefficient": _coefficient,
    "count": lambda value: text.number(len(value)),
}
#: Ways to print a figure that is computed from two of the document.
PAIRS: Final[dict[str, Callable[[Any, Any], str]]] = {
    "difference": lambda now, before: text.percent((now - before) / before) if before else "–",
    "less": lambda now, before: _coefficient(now - before),
    "product": lambda one, other: text.number(one * other),
    "ratio": lambda part, whole: text.percent(part / whole) if whole else "–",
}


def printed(form: str, *values: Any) -> str:
    """One figure, or one that is made of two, as text; a dash where one of the two is missing."""
    if form in FORMS:
        return FORMS[form](*values)
    return "–" if None in values else PAIRS[form](*values)


def pointer(*path: Step) -> str:
    """A JSON pointer (RFC 6901).

    >>> pointer("figures", "kld.2[a/b]", 3)
    '/figures/kld.2[a~1b]/3'
    """
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


class Trace:
    """Looks figures up in the document as it is written to comparison.json, and prints them.

    A figure that is printed through it cannot differ from the file: the element that holds it names
    the place (``data-figure``) and the form (``data-as``).
    """

    def __init__(self, document: ComparisonDocument) -> None:
        self._data = document.model_dump(mode="json")

    def value(self, *path: Step) -> Any:
        """The value at a place of the document."""
        found: Any = self._data
        for step in path:
            found = found[step]
        return found

    def __call__(self, form: str, *path: Step, tag: str = "span", attributes: str = "") -> Markup:
        """One figure, at a path of the document, in one of `FORMS`, as an HTML element.

        Further attributes are written by templates only.
        """
        shown = printed(form, self.value(*path))
        return _element(tag, {"figure": pointer(*path), "as": form}, attributes, shown)

    def pair(
        self,
        form: str,
        one: tuple[Step, ...],
        other: tuple[Step, ...],
        tag: str = "span",
        attributes: str = "",
    ) -> Markup:
        """One figure made of two (`PAIRS`), as an HTML element."""
        shown = printed(form, self.value(*one), self.value(*other))
        places = {"figure": pointer(*one), "against": pointer(*other), "as": form}
        return _element(tag, places, attributes, shown)


def _element(tag: str, data: dict[str, str], attributes: str, shown: str) -> Markup:
    places = ((name, visible(place, keep=" \n")) for name, place in data.items())
    traced = Markup("").join(Markup(' data-{}="{}"').format(*item) for item in places)
    more = Markup(f" {attributes}" if attributes else "")  # noqa: S704 - a template's own text
    return Markup("<{0}{1}{2}>{3}</{0}>").format(tag, traced, more, shown)
