"""Reports as the tests read them."""

import re
from collections import Counter
from html.parser import HTMLParser

from privbench.report.text import coefficient, difference, less, number, per_cent, percent, seconds

#: Cells with digits that are no figures of the comparison.
_NAMES = {"code", "pre", "sql", "left", "grade"}


class Page(HTMLParser):
    """What the tests look for in a page."""

    def __init__(self, text):
        super().__init__()
        self.loads: list[str] = []
        self.sections: list[str] = []
        self.scripts = 0
        self.words: list[str] = []
        self.figures: list[tuple[str, str]] = []
        self.cells: list[str] = []
        self.data: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str], list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.scripts += tag == "script"
        if tag == "section":
            self.sections.append(values["id"])
        if tag != "a":
            self.loads += [values[name] for name in ("src", "href") if values.get(name)]
        if tag not in ("meta", "link", "br", "img", "input"):
            self._open.append((tag, values, []))

    def handle_endtag(self, tag):
        if not self._open or self._open[-1][0] != tag:
            return
        _, values, said = self._open.pop()
        text = " ".join("".join(said).split())
        if "data-figure" in values:
            self.figures.append((values["data-figure"], text))
        if tag == "script" and (values.get("id") or self._open[-1][1].get("class") == "chart"):
            self.data[values.get("id") or self._open[-1][1]["id"]] = "".join(said)
        if self._open and tag not in ("script", "style"):
            self._open[-1][2].append("".join(said) if self._plain(values, tag) else " ")

    def handle_data(self, data):
        if self._open:
            self._open[-1][2].append(data)
            if self._open[-1][0] not in ("script", "style"):
                self.words.append(data)
            classes = {
                name for _, values, _ in self._open for name in values.get("class", "").split()
            }
            tags = {tag for tag, _, _ in self._open}
            if "td" in tags and not _NAMES & {*tags, *classes} and re.search(r"\d", data):
                self.cells.append(data.strip().removesuffix(" apart"))

    @staticmethod
    def _plain(values, tag):
        """Whether a parent's text goes on with this element's."""
        return "data-figure" not in values and tag not in _NAMES


def changed(part, **update):
    """A document, or a part of one, with other values."""
    return part.model_copy(update=update)


def at(data, pointer):
    """What a JSON pointer points at."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        data = data[int(name)] if isinstance(data, list) else data[name]
    return data


def printed(data):
    """Every number of a document as the page may print it."""
    if isinstance(data, dict | list):
        return {text for part in (data.values() if isinstance(data, dict) else data)
                for text in printed(part)}  # fmt: skip
    if not isinstance(data, int | float):
        return set()
    return {form(data) for form in (number, percent, per_cent, seconds, coefficient)}


def wrong(data, page):
    """Places of figures that the page shows otherwise than the document, and cells without one."""
    named = [
        place for place, text in page.figures
        if not any(form(at(data, place)) in text for form in (number, percent))
    ]  # fmt: skip
    known = printed(data) | {query["id"] for query in data["queries"]}
    for query in data["queries"]:
        known |= {seconds(query["weight"] * (query[side]["median"] or 0))
                  for side in ("source", "clone")}  # fmt: skip
    for table in data["tables"]:
        if table["clone_rows"] is not None:
            known.add(difference(table["clone_rows"], table["source_rows"]))
        for part in table["values"]:
            sides = (*part["source"].values(), *part["clone"].values())
            moments = {value[:16] for value in sides if isinstance(value, str)}
            known |= {moment.replace("T00:00", "").replace("T", " ") for moment in moments}
    for part in data["views"]["correlations"]:
        for real, clone in zip(part["real"], part["clone"], strict=True):
            known |= {less(one, other) for one, other in zip(clone, real, strict=True)}
    kinds = Counter(check["kind"] for check in data["integrity"])
    return named + [
        text for text in page.cells if text not in known | set(map(str, kinds.values()))
    ]
