r"""Escape texts that others wrote (names, labels, queries, server messages) before they are shown.

Whoever may create a table can choose a name with line breaks, terminal escape sequences, marks that
turn the direction of text, or blanks that push the rest of a line out of sight, so that it passes
for output of this tool. So everything that is shown goes through `visible`, which escapes such
characters in all text that is not `Lines`. Only `lines` and `table` make `Lines`, from parts that
they escape one by one; every other operation on `Lines` (``+``, an f-string, ``join``) gives plain
text, which is escaped again as a single line. So a caller that forgets this rule loses its line
breaks, but cannot let a stranger's text add lines.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

#: Characters that Python takes for printable and that show nothing: joiners, fillers, variation
#: selectors, and blanks that are called letters or symbols.
_EMPTY = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
#: Blanks within a line, or so many before it that a terminal wraps the line behind them.
_BLANKS = re.compile("(?<=[^ ]) [ \u3000]+| *\u3000[ \u3000]+| {32,}")
#: Categories of marks that are drawn on the character before them; more of them than a script needs
#: would be drawn over other lines.
_MARKS, _MOST = ("Mn", "Me"), 4
#: What Markdown may read as markup, also at the beginning of a line, and what becomes a link.
_MARKUP = re.compile(
    r"[\\`*\[\]<>|~&$]|(?<!\w)_|_(?!\w)|^#|^[-+=](?=\s|[-+=]|$)|:(?=//)|(?<=[wW]{3})\."
)
#: A number that begins an item of a list, which a blank or the end follows.
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")


class Lines(str):
    """Text, of one or several lines, that is already escaped and may be shown as it is."""

    __slots__ = ()

    def __str__(self) -> Lines:
        return self


def visible(text: str, keep: str = "") -> str:
    r"""Return the text as one line with unsafe characters escaped; `Lines` are returned unchanged.

    Escaped are control characters, line separators, format characters such as direction marks,
    characters without a glyph, unassigned and private ones, and runs of blanks, except before the
    first word. ``keep`` lists characters that are not escaped; a blank in it keeps runs of blanks.

    >>> visible("Größe 大きさ \N{GRINNING FACE}"), visible("a\nok\x1b[2J\u202e"), visible("a   b")
    ('Größe 大きさ 😀', 'a\\nok\\x1b[2J\\u202e', 'a\\x20{3}b')
    """
    if isinstance(text, Lines):
        return text
    if not (text.isascii() and text.isprintable()):
        text = _escaped(text, _unicode, keep)
        if marks := "".join(char for char in {*text} if unicodedata.category(char) in _MARKS):
            text = re.sub(
                f"([{marks}]{{{_MOST}}})([{marks}]+)",
                lambda found: found[1] + "".join(map(_unicode, found[2])),
                text,
            )
    return text if " " in keep else _BLANKS.sub(lambda run: rf"\x20{{{len(run[0])}}}", text)


def _escaped(text: str, escape: Callable[[str], str], keep: str) -> str:
    """The text with its characters escaped that do not show, except those to keep."""
    hidden = (
        char
        for char in {*text}.difference(keep, "\u3000")
        if not char.isprintable() or _EMPTY.match(char)
    )
    return text.translate({ord(char): escape(char) for char in hidden})


def _unicode(char: str) -> str:
    return char.encode("unicode_escape").decode()


def lines(*items: str) -> Lines:
    r"""Return the items as lines, each escaped; items that are `Lines` stay as they are.

    >>> print(lines("Tables:", "  a\nb"))
    Tables:
      a\nb
    """
    return Lines("\n".join(map(visible, items)))


def paragraphs(*items: str) -> Lines:
    """Return the items as `lines` does, separated by empty lines."""
    return Lines("\n\n".join(map(visible, items)))


def table(
    rows: Sequence[Sequence[str]], right: str = "", *, indent: int = 2, width: int | None = None
) -> list[Lines]:
    """Return rows as aligned lines; columns whose digit is in ``right`` are aligned to the right.

    Lines are cut at ``width`` characters, or not at all if it is None. Empty columns are left out.

    >>> print(*table([["a", "10"], ["bc", "9"]], "1", indent=0), sep="; ")
    a   10; bc   9
    """
    visible_cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*visible_cells, strict=True)]
    aligned = []
    for row in visible_cells:
        cells = (
            cell.rjust(size) if str(at) in right else cell.ljust(size)
            for at, (cell, size) in enumerate(zip(row, widths, strict=True))
            if size
        )
        line = (" " * indent + "  ".join(cells)).rstrip()
        aligned.append(Lines(f"{line[: width - 1]}…" if width and len(line) > width else line))
    return aligned


def json_lines(data: Any) -> Lines:
    """Return the data as indented JSON in ASCII."""
    return Lines(json.dumps(data, indent=2))


def json_visible(text: str) -> str:
    r"""Return a JSON text in which invisible or unsafe characters of its strings are escaped.

    >>> json_visible('{"a\u202e": 1}')
    '{"a\\u202e": 1}'
    """
    return _escaped(text, lambda char: json.dumps(char)[1:-1], "\n")


def toml_visible(text: str) -> str:
    """Return a TOML or YAML text of quoted strings, escaped as by `json_visible`."""
    return _escaped(text, lambda char: rf"\U{ord(char):08x}", "\n")


def toml_key(name: str) -> str:
    r"""Return a name as a quoted key of TOML.

    >>> print(toml_key('public."DatabaseProvider"'))
    "public.\"DatabaseProvider\""
    """
    return toml_visible(json.dumps(name, ensure_ascii=False))


def finalize(form: str) -> Callable[[Any], Any]:
    """Return the function by which Jinja escapes each value, chosen by the suffix of the template.

    In HTML line breaks are kept, for queries; in other files each value becomes one line. No value
    counts as safe markup.
    """
    forms: dict[str, Callable[[str], str]] = {
        "html": partial(visible, keep=" \n\t"),
        "md": markdown,
    }
    show = forms.get(form, visible)
    return lambda value: (
        show(value) if isinstance(value, str) and not isinstance(value, Markup) else value
    )


def markdown(text: str) -> Markup:
    r"""Return the text escaped for Markdown: it starts no HTML, link, picture, table or code.

    >>> print(markdown("<b> [x](y) | order_items"), markdown("1. item"), markdown("3.2"))
    \<b\> \[x\](y) \| order_items 1\. item 3.2
    """
    plain = _MARKUP.sub(r"\\\g<0>", visible(text))
    return Markup(_NUMBERED.sub(r"\1\\\2", plain))  # noqa: S704


def code(text: str) -> Markup:
    r"""Return the text as inline code of Markdown, which may stand in a table.

    >>> print(code("users"), code("a`b"))
    `users` `` a`b ``
    """
    text = visible(text)
    if "|" in text:  # It would end a cell of a table, and cannot be escaped with certainty.
        return markdown(text)
    fence = _fence(text, 1)
    pad = " " if "`" in text else ""
    return Markup(f"{fence}{pad}{text}{pad}{fence}")  # noqa: S704


def code_block(items: Sequence[str], language: str) -> Markup:
    """Return lines of code as a Markdown code block that none of the lines can close."""
    text = lines(*items)
    fence = _fence(text, 3)
    return Markup(f"{fence}{language}\n{text}\n{fence}")  # noqa: S704


def _fence(text: str, least: int) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1 if longest >= least else least)


def one_line(text: str) -> str:
    """Return a text of unknown origin escaped, so that it is safe as part of one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]


def quote(identifier: str) -> str:
    """Return an SQL identifier for messages, with quotes only where PostgreSQL needs them.

    >>> quote("users"), quote("My Table")
    ('users', '"My Table"')
    """
    plain = re.fullmatch(r"[a-z_][a-z0-9_$]*", identifier)
    return identifier if plain else '"' + identifier.replace('"', '""') + '"'
