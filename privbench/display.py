r"""Show texts of others: names, labels, literals, queries, messages of servers, paths.

Whoever may create a table chooses a name with line breaks, escape sequences of terminals, marks
that turn the direction of text, or blanks that push the rest of a line to where it is taken for one
of ours. So everything that is shown goes through `visible`, which escapes such characters, line
breaks among them, in all text that is not `Lines`. Only `lines` and `table` make `Lines`, of parts
that they escape one by one; every other operation on them (``+``, an f-string, ``join``) gives
plain text, which is escaped again as a single line. A place that forgets this shows too little of
its own layout, and never a line of somebody else's.
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
_NUMBERED = re.compile(r"^(\d+)([.)])")


class Lines(str):
    """Text of one or several lines of which every character may be shown as it is."""

    __slots__ = ()

    def __str__(self) -> Lines:
        return self


def visible(text: str, keep: str = "") -> str:
    r"""The text as a line that shows all of itself; `Lines` are returned as they are.

    Escaped are controls, separators of lines, format characters such as marks of direction,
    characters without a picture, unassigned and private ones; and runs of blanks, except before the
    first word. ``keep`` names characters that stay, a blank for runs of blanks.

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
    r"""Items as lines, each made visible; `Lines` among them stay as they are.

    >>> print(lines("Tables:", "  a\nb"))
    Tables:
      a\nb
    """
    return Lines("\n".join(map(visible, items)))


def paragraphs(*items: str) -> Lines:
    """Items as by `lines`, with an empty line between them."""
    return Lines("\n\n".join(map(visible, items)))


def table(
    rows: Sequence[Sequence[str]], right: str = "", *, indent: int = 2, width: int | None = None
) -> list[Lines]:
    """Rows as aligned lines; columns whose digit is in ``right`` are aligned to the right.

    Lines are cut at ``width`` characters; None means any number. A column of nothing is left out.

    >>> print(*table([["a", "10"], ["bc", "9"]], "1", indent=0), sep="; ")
    a   10; bc   9
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    made = []
    for row in shown:
        cells = (
            cell.rjust(size) if str(at) in right else cell.ljust(size)
            for at, (cell, size) in enumerate(zip(row, widths, strict=True))
            if size
        )
        line = (" " * indent + "  ".join(cells)).rstrip()
        made.append(Lines(f"{line[: width - 1]}…" if width and len(line) > width else line))
    return made


def json_lines(data: Any) -> Lines:
    """JSON in ASCII, in several lines."""
    return Lines(json.dumps(data, indent=2))


def json_visible(text: str) -> str:
    r"""A text in JSON, with every character in its strings escaped that does not show.

    >>> json_visible('{"a\u202e": 1}')
    '{"a\\u202e": 1}'
    """
    return _escaped(text, lambda char: json.dumps(char)[1:-1], "\n")


def toml_visible(text: str) -> str:
    """A text in TOML or YAML of quoted strings, escaped as by `json_visible`."""
    return _escaped(text, lambda char: rf"\U{ord(char):08x}", "\n")


def toml_key(name: str) -> str:
    r"""A name as a quoted key in TOML.

    >>> print(toml_key('public."DatabaseProvider"'))
    "public.\"DatabaseProvider\""
    """
    return toml_visible(json.dumps(name, ensure_ascii=False))


def finalize(form: str) -> Callable[[Any], Any]:
    """How Jinja prints a value before it escapes HTML: by the suffix of the file, and no Markup.

    HTML keeps the layout of queries; other texts are one line.
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
    r"""A text as Markdown that shows it: no HTML, link, picture, table or code begins in it.

    >>> print(markdown("<b> [x](y) | order_items"))
    \<b\> \[x\](y) \| order_items
    """
    plain = _MARKUP.sub(r"\\\g<0>", visible(text))
    return Markup(_NUMBERED.sub(r"\1\\\2", plain))  # noqa: S704


def code(text: str) -> Markup:
    r"""A text as a piece of code in Markdown, also in a table.

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
    """Lines of code as a block in Markdown, which none of them can end."""
    text = lines(*items)
    fence = _fence(text, 3)
    return Markup(f"{fence}{language}\n{text}\n{fence}")  # noqa: S704


def _fence(text: str, least: int) -> str:
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1 if longest >= least else least)


def one_line(text: str) -> str:
    """A text of unknown origin, made safe to be shown as part of one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]


def quote(identifier: str) -> str:
    """An identifier for messages: quoted only where PostgreSQL needs quotes.

    >>> quote("users"), quote("My Table")
    ('users', '"My Table"')
    """
    plain = re.fullmatch(r"[a-z_][a-z0-9_$]*", identifier)
    return identifier if plain else '"' + identifier.replace('"', '""') + '"'
