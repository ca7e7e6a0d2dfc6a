"""Formats that a column may have, in the order in which a rehearsal tries them.

Each is a condition that encoders keep by construction, as if the schema had it as a CHECK, or
templates of literals where a type is not modelled. The lists are JSON in ``data/formats.json``,
broad formats first. Constants of the expressions that read a column add to them: separators, keys
of documents, ends of ranges, and values by themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from privbench.encoding.categories import labels_of
from privbench.encoding.datetimes import DateScale, TimestampScale
from privbench.encoding.keys.placeholders import MAX_TEMPLATES, is_array
from privbench.encoding.scale import Scale, scale_of
from privbench.encoding.surrogate_text import TEXT_BASES
from privbench.pgsql import SqlError, tokens
from privbench.rules.facts import allowed, column_rules, with_rules
from privbench.rules.named import packaged
from privbench.rules.texts import column_pattern
from privbench.schema import Check, Column, Table, literal, quoted

#: Name of the CHECKs that hold formats; the catalog has no constraint of this name.
FORMAT = "format by rehearsal"
#: Most constants of expressions that are tried, and characters of each.
_CONSTANTS, _LONGEST = 32, 1000
#: Most constants of expressions that are tried as separators of a text.
_MARKS = 6
#: How many formats of a number, the first ones, have one end alone.
_OPEN = 2
#: How deep documents are nested at most, and the values of one that is nested in all its keys.
_DEPTH, _LEAVES = 3, 256
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?\Z")
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_KEY = re.compile(r"[^\W\d][\w -]{0,62}\Z")
#: Types of documents with keys.
_KEYED = ("json", "jsonb", "hstore")


def _known() -> dict[str, Any]:
    return packaged("formats", "privbench.encoding")


@dataclass(frozen=True, slots=True)
class Format:
    """One format of a column, or an order of two; by default none, as the type alone says."""

    condition: str = ""  # SQL of a CHECK
    columns: tuple[str, ...] = ()  # columns of the CHECK
    value: str | None = None  # the only value that the condition allows
    templates: tuple[str, ...] = ()
    least: int = 0  # fewest elements of an array
    leaf: tuple[str, str] | None = None  # a key of a document, and the JSON of its value
    # Whether it is one value of an expression's constants, beside which others may be allowed.
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Formats of which a rehearsal chooses one; all are of the same columns."""

    columns: tuple[str, ...]
    formats: tuple[Format, ...]
    keys: tuple[str, ...] = ()  # all keys of the document, where the formats are of one of them
    # Whether one of them is chosen only if some expression then takes every row. By chance an order
    # moves values of any two columns to where more rows pass.
    settles: bool = False

    @property
    def absent(self) -> Format:
        """The format of a document that lacks the key."""
        assert self.formats[0].leaf is not None
        return Format(leaf=(self.formats[0].leaf[0], ""))


def choices(table: Table, names: Sequence[str], texts: Iterable[str]) -> list[Choice]:
    """What a rehearsal may choose for some columns, which expressions with these texts read."""
    constants = _constants(texts)
    found, first = [], []
    for name in names:
        column = table.column(name)
        if column.type.base in _KEYED:
            found += list(_of_keys(column, constants))
        formats = tuple(dict.fromkeys(_formats(table, column, constants)))
        if formats:
            found.append(Choice((name,), formats))
            if column.type.category == "N":
                first.append(Choice((name,), formats[:_OPEN], settles=True))
    # First what takes least from columns: a bound at one end, else an order of two.
    return [*first, *_orders(table, names), *found]


def _constants(texts: Iterable[str]) -> list[str]:
    """Strings and numbers in expressions, each once; of a path in braces its words too."""
    found: dict[str, None] = {}
    for text in texts:
        try:
            words = tokens(text)
        except SqlError:
            continue
        for word in words:
            if word.kind == "SCONST" and word.text.startswith("'"):
                plain = word.text[1:-1].replace("''", "'")
                parts = re.findall(r"\w+", plain) if plain[:1] in "{$" else []
                found.update(dict.fromkeys([plain, *parts]))
            elif word.kind in ("ICONST", "FCONST"):
                found[word.text] = None
    short = (text for text in found if 0 < len(text) <= _LONGEST and "#" not in text)
    return list(islice(short, _CONSTANTS))


def _formats(table: Table, column: Column, constants: Sequence[str]) -> Iterator[Format]:
    scale, type_ = scale_of(column.type), column.type
    if allowed(column_rules(table, column)) is not None:
        return
    if type_.base in TEXT_BASES:
        if column_pattern(table, column) is None:
            yield from _texts(column, constants)
    elif labels := labels_of(type_):
        yield from (_value(column, label) for label in labels)
    elif scale is not None:
        yield from _ranges(column, scale, constants)
    elif is_array(type_):
        yield from (Format(least=least) for least in (1, 2, 3, 5))
        yield from (Format(templates=(t,), least=3) for t in _known()["elements"])
    elif type_.base in _KEYED[:2]:
        yield from (Format(templates=(text,)) for text in _known()["documents"])
    else:
        yield from (Format(templates=(text,)) for text in _known()["literals"])


def _texts(column: Column, constants: Sequence[str]) -> Iterator[Format]:
    known = _known()
    short = (text for text in constants if len(text) <= 8 and not _NUMBER.match(text))
    marks = [re.escape(text) for text in islice(short, _MARKS)]
    separated, beginning = (
        [form.replace("@", mark) for mark in marks for form in known[kind]]
        for kind in ("separated", "beginning")
    )
    keys = [text for text in constants if _KEY.match(text)]
    pairs = ", ".join(f'"{re.escape(key)}": [0-9]{{1,6}}' for key in keys)
    for form in (*separated, *known["texts"], *beginning, *([f"[{{]{pairs}[}}]"] if keys else [])):
        yield Format(_matching(column, form), (column.name,))
    yield from (_value(column, text) for text in constants)


def _matching(column: Column, form: str) -> str:
    """The condition that a column matches a regular expression as a whole."""
    return f"({quoted(column.name)} ~ {literal(f'^({form})$')}::text)"


def _value(column: Column, text: str) -> Format:
    return Format(_listed(column, [text]), (column.name,), value=text, constant=True)


def _listed(column: Column, values: Iterable[str]) -> str:
    """The condition that a column has one of some values."""
    if column.type.base in TEXT_BASES:
        # A pattern, since texts that were released as labels may be others.
        return _matching(column, "|".join(map(re.escape, values)))
    plain = column.type.category in "NB"
    items = ", ".join(value if plain else literal(value) for value in values)
    return f"({quoted(column.name)} IN ({items}))"


def _ranges(column: Column, scale: Scale, constants: Sequence[str]) -> Iterator[Format]:
    """Ranges of numbers and times, and small numbers by themselves."""
    calendar = isinstance(scale, (DateScale, TimestampScale))
    points = sorted((point, text) for text in constants if (point := _point(scale, text, calendar)))
    ends = [points[0][1], points[-1][1]] if points else []
    if calendar:
        years = sorted(text for text in constants if _YEAR.match(text))
        ends = ends or ([f"{years[0]}-01-01", f"{years[-1]}-12-31"] if years else [])
        listed = [*_known()["times"]]
    elif column.type.category == "N":
        listed = [*_known()["numbers"]]
        # Shares and rates are below one.
        listed[1:1] = [] if scale.whole else [["0.01", None]]
    else:
        listed = [["0", None]]
    name = quoted(column.name)
    for low, high in listed + ([ends] if len({*ends}) == 2 else []):
        signs = ((">=", low), ("<=", high))
        parts = [f"({name} {sign} {literal(end)})" for sign, end in signs if end is not None]
        yield Format(" AND ".join(parts), (column.name,))
    if scale.whole:
        small = [*(text for text in constants if text.isdigit()), *map(str, range(10))]
        yield from (_value(column, text) for text in dict.fromkeys(small))


def _point(scale: Scale, text: str, calendar: bool) -> int | None:
    if not (re.match(r"\d{4}-\d\d-\d\d", text) if calendar else _NUMBER.match(text)):
        return None
    try:
        return scale.parse(text)
    except ValueError:
        return None


def _orders(table: Table, names: Sequence[str]) -> Iterator[Choice]:
    """Orders of two columns of one type, as the ends of a range have."""
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            scale = scale_of(table.column(one).type)
            if scale is None or scale != scale_of(table.column(other).type):
                continue
            pairs = [(one, sign, other) for sign in ("<=", "<", ">=", ">")]
            made = (f"({quoted(a)} {sign} {quoted(b)})" for a, sign, b in pairs)
            both = (one, other)
            yield Choice(both, tuple(Format(text, both) for text in made), settles=True)


def _of_keys(column: Column, constants: Sequence[str]) -> Iterator[Choice]:
    """The value of every key that a document may need to have."""
    texts = [text for text in constants if not _NUMBER.match(text)]
    leaves = [*_known()["leaves"], _OBJECT]
    keys = tuple(text for text in constants if _KEY.match(text))
    for key in keys:
        plain = [Format(leaf=(key, leaf)) for leaf in leaves]
        own = [Format(leaf=(key, json.dumps(text)), constant=True) for text in texts]
        yield Choice((column.name,), (*plain, *own), keys)


#: A document's value that has all its keys, with the values that they have; and a text that is a
#: number and a truth value too.
_OBJECT, _USUAL = "{}", '"1"'


def formatted(table: Table, chosen: Mapping[Choice, Sequence[Format]]) -> Table:
    """The table with chosen formats, one or several alternatives of each choice.

    Conditions come before the table's own CHECKs. Where some keys of a document are chosen, its
    other keys have a text that most types take.
    """
    checks: list[Check] = []
    leaves: dict[str, dict[str, list[str]]] = {}
    columns = {column.name: column for column in table.columns}
    for choice, formats in chosen.items():
        first, name = formats[0], choice.columns[0]
        if first.leaf is not None:
            here = leaves.setdefault(name, {key: [_USUAL] for key in choice.keys})
            here[first.leaf[0]] = [item.leaf[1] for item in formats if item.leaf]
        elif first.condition:
            values = [item.value for item in formats if item.value is not None]
            text = _listed(columns[name], values) if values else first.condition
            checks.append(Check(FORMAT, text, choice.columns, declared=True))
        else:
            templates = tuple(text for item in formats for text in item.templates)
            columns[name] = replace(columns[name], templates=templates, least=first.least)
    for name, made in leaves.items():
        columns[name] = replace(columns[name], templates=_documents(columns[name], made))
    return with_rules(
        replace(table, columns=tuple(columns.values()), checks=(*checks, *table.checks))
    )


def _documents(column: Column, leaves: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Templates of documents with some keys, each with the values that it may have, in turn."""
    many = min(max((len(values) for values in leaves.values()), default=1), MAX_TEMPLATES)
    made = []
    for turn in range(many):
        here = {key: values[turn % len(values)] for key, values in leaves.items()}
        objects = sum(leaf == _OBJECT for leaf in here.values())
        # Of many keys that are objects each would have all the others, at every depth.
        deep = (d for d in range(2, _DEPTH + 1) if len(here) * objects**d > _LEAVES)
        made.append(_document(here, column.type.base, _DEPTH + 1 - next(deep, _DEPTH + 1)))
    return tuple(dict.fromkeys(made))


def _document(leaves: Mapping[str, str], base: str, depth: int) -> str:
    """One document; values that are objects have the other keys."""
    parts = []
    for key, leaf in leaves.items():
        if not leaf:
            continue
        if leaf == _OBJECT:
            others = {name: value for name, value in leaves.items() if name != key}
            leaf = _document(others, base, depth + 1) if depth < _DEPTH else "{}"
        if base == "hstore":
            plain = leaf if leaf.startswith('"') else json.dumps(leaf)
            parts.append(f"{json.dumps(key)}=>{plain}")
        else:
            parts.append(f"{json.dumps(key)}: {leaf}")
    return ", ".join(parts) if base == "hstore" else f"{{{', '.join(parts)}}}"
