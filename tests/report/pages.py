"""Reports as the tests read them."""

import re
from html.parser import HTMLParser
from typing import Any

from privbench.report.trace import FORMS, printed

#: Cells with digits that are no figures of the comparison.
_NAMES = {"code", "pre", "sql", "grade"}


class Page(HTMLParser):
    """What the tests look for in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.sections: list[str] = []
        self.scripts = 0
        self.words: list[str] = []
        self.figures: list[tuple[dict[str, str], str]] = []
        self.bare: list[str] = []
        self.data: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.scripts += tag == "script"
        if tag == "section":
            self.sections.append(values["id"])
        if tag != "a":
            self.loads += [values[name] for name in ("src", "href") if values.get(name)]
        if tag not in ("meta", "link", "br", "img", "input"):
            self._open.append((tag, values, []))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1][0] != tag:
            return
        _, values, said = self._open.pop()
        text = " ".join("".join(said).split())
        if "data-figure" in values and "data-as" in values:
            self.figures.append((values, text))
        if tag == "script" and (values.get("id") or self._open[-1][1].get("class") == "chart"):
            self.data[values.get("id") or self._open[-1][1]["id"]] = "".join(said)
        if tag == "td" and re.search(r"\d", "".join(self._own(values, said))):
            self.bare.append(text)
        if self._open and tag not in ("script", "style"):
            self._open[-1][2].append("".join(said) if self._plain(values, tag) else " ")

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1][2].append(data)
            if self._open[-1][0] not in ("script", "style"):
                self.words.append(data)

    @staticmethod
    def _plain(values: dict[str, str], tag: str) -> bool:
        """Whether a parent's text goes on with this element's."""
        return "data-figure" not in values and tag not in _NAMES

    @staticmethod
    def _own(values: dict[str, str], said: list[str]) -> list[str]:
        """Text of a cell that is neither a traced figure nor a name."""
        named = "data-figure" in values or {"sql", "left"} & set(values.get("class", "").split())
        return [] if named else said


def at(data: Any, pointer: str) -> Any:
    """What a JSON pointer points at."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        data = data[int(name)] if isinstance(data, list) else data[name]
    return data


def wrong(data: Any, values: dict[str, str], shown: str) -> bool:
    """Whether an element shows something else than the place that it names."""
    found, form = at(data, values["data-figure"]), values["data-as"]
    if form == "within":  # a figure within a sentence
        texts = (FORMS["number"](found), FORMS["percent"](found))
        return not any(text in shown for text in texts)
    if form in ("checks", "violated"):
        kind = [check for check in found if check["kind"] == values["data-kind"]]
        counted = len(kind) if form == "checks" else sum(check["violations"] > 0 for check in kind)
        return shown != str(counted)
    other = [at(data, values["data-against"])] if "data-against" in values else []
    return shown != printed(form, found, *other)
