"""Formats that a column's values may have; a rehearsal in PostgreSQL finds a format that works.

A format is a pattern of a text, a condition, a value, or a template of literals where a type is not
modelled. Patterns, conditions and values become CHECKs, which encoders keep by construction. The
lists are JSON in ``data/formats.json``, broad formats first. The constants of expressions that read
a column are further candidates: separators, keys of documents, ends of ranges, and whole values.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

from privbench.encoding.categories import labels_of
from privbench.encoding.datetimes import MomentScale
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
#: Most constants that are tried as separators of a text, and characters of each.
_MARKS, _SHORT = 6, 8
#: How many formats of a number, the first ones, have one end alone.
_OPEN = 2
#: How deep documents are nested at most, and the values of one that is nested in all its keys.
_DEPTH, _LEAVES = 3, 256
#: A document's value that has all its other keys; and a text that is a number and a truth value.
_OBJECT, _USUAL = "{}", '"1"'
_NUMBER = re.compile(r"\d+(?:\.\d+)?\Z")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_YEAR = re.compile(r"(?:19|20)\d\d\Z")
_KEY = re.compile(r"[^\W\d][\w -]{0,62}\Z")
#: Types of documents with keys.
_KEYED = ("json", "jsonb", "hstore")


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate formats of some columns; a rehearsal chooses one, or several ``values``."""

    columns: tuple[str, ...]
    formats: tuple[str, ...]
    values: frozenset[str] = frozenset()  # those of the formats that allow one single value
    # The key of a document whose value the formats are, and the document's other keys.
    keys: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The formats to try; for a document's key the first option is that the key is absent."""
        return ("", *self.formats) if self.keys else self.formats


def choices(table: Table, names: Sequence[str], texts: Iterable[str]) -> list[Choice]:
    """Return the candidate formats for columns that expressions with these texts read."""
    constants = _constants(texts)
    candidates: list[Choice] = []
    first: list[Choice] = []
    for name in names:
        column = table.column(name)
        if allowed(column_rules(table, column)) is not None:
            continue
        if column.type.base in _KEYED:
            candidates += _of_keys(column, constants)
        values = _values(column, constants)
        formats = tuple(dict.fromkeys((*_formats(table, column, constants), *values)))
        if formats:
            candidates.append(Choice((name,), formats, frozenset(values)))
            if column.type.category == "N":
                first.append(Choice((name,), formats[:_OPEN]))
    # First what takes least from columns: a bound at one end, else an order of two.
    return [*first, *_orders(table, names), *candidates]


def _constants(texts: Iterable[str]) -> list[str]:
    """Strings and numbers in expressions, each once; of a path in braces its words too."""
    constants: dict[str, None] = {}
    for text in texts:
        try:
            words = tokens(text)
        except SqlError:
            continue
        for word in words:
            if word.kind == "SCONST" and word.text.startswith("'"):
                plain = word.text[1:-1].replace("''", "'")
                parts = re.findall(r"\w+", plain) if plain[:1] in "{$" else []
                constants.update(dict.fromkeys([plain, *parts]))
            elif word.kind in ("ICONST", "FCONST"):
                constants[word.text] = None
    short = (text for text in constants if 0 < len(text) <= _LONGEST and "#" not in text)
    return list(islice(short, _CONSTANTS))


def _formats(table: Table, column: Column, constants: Sequence[str]) -> Iterator[str]:
    known, scale = packaged("formats", "privbench.encoding"), scale_of(column.type)
    if column.type.base in TEXT_BASES:
        if column_pattern(table, column) is None:
            yield from _patterns(known, constants)
    elif scale is not None:
        ranges = [*known["ranges"].get(column.type.category, [])]
        if column.type.category == "N" and not scale.whole:
            # Shares and rates are below one.
            ranges.insert(1, ["0.01", None])
        for low, high in (*ranges, *_between(scale, constants)):
            ends = ((">=", low), ("<=", high))
            parts = [f"({quoted(column.name)} {sign} {literal(end)})" for sign, end in ends if end]
            yield " AND ".join(parts)
    elif is_array(column.type):
        yield from known["arrays"]
    elif not labels_of(column.type):
        yield from known["documents" if column.type.base in _KEYED[:2] else "literals"]


def _patterns(known: Mapping[str, Any], constants: Sequence[str]) -> Iterator[str]:
    """Patterns of texts, with marks among the constants as separators or beginnings."""
    short = (text for text in constants if len(text) <= _SHORT and not _NUMBER.match(text))
    marks = [re.escape(text) for text in islice(short, _MARKS)]
    yield from (form.replace("@", mark) for mark in marks for form in known["separated"])
    yield from known["texts"]
    yield from (form.replace("@", mark) for mark in marks for form in known["beginning"])
    keys = [text for text in constants if _KEY.match(text)]
    pairs = ", ".join(f'"{re.escape(key)}": [0-9]{{1,6}}' for key in keys)
    if pairs:
        yield f"[{{]{pairs}[}}]"


def _values(column: Column, constants: Sequence[str]) -> tuple[str, ...]:
    """Formats that allow one single value each."""
    scale = scale_of(column.type)
    if column.type.base in TEXT_BASES:
        # Patterns, since texts that were released as labels may be others.
        return tuple(map(re.escape, constants))
    if scale is not None and scale.whole:
        return (*(text for text in constants if text.isdigit()), *map(str, range(10)))
    return tuple(labels_of(column.type) or ())


def _between(scale: Scale, constants: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The range from the least to the greatest constant; of a year all its days count."""
    calendar = isinstance(scale, MomentScale)
    years = [text for text in constants if _YEAR.match(text)]
    ends = [f"{year}-{day}" for year in years for day in ("01-01", "12-31")]
    points = []
    for text in (*constants, *ends):
        with suppress(ValueError):
            if (_DATE if calendar else _NUMBER).match(text):
                points.append((scale.parse(text), text))
    if len(points) > 1:
        yield min(points)[1], max(points)[1]


def _orders(table: Table, names: Sequence[str]) -> Iterator[Choice]:
    """Orders of two columns of one type, as the ends of a range have."""
    for pair in combinations(names, 2):
        one, other = (scale_of(table.column(name).type) for name in pair)
        if one is not None and one == other:
            low, high = map(quoted, pair)
            yield Choice(pair, tuple(f"({low} {sign} {high})" for sign in ("<=", "<", ">=", ">")))


def _of_keys(column: Column, constants: Sequence[str]) -> Iterator[Choice]:
    """The value of every key that a document may need to have."""
    leaves = packaged("formats", "privbench.encoding")["leaves"]
    values = [json.dumps(text) for text in constants if not _NUMBER.match(text)]
    keys = [text for text in constants if _KEY.match(text)]
    for key in keys:
        formats = tuple(dict.fromkeys((*leaves, _OBJECT, *values)))
        others = [other for other in keys if other != key]
        yield Choice((column.name,), formats, frozenset(values), (key, *others))


def formatted(table: Table, chosen: Mapping[Choice, Sequence[str]]) -> Table:
    """Return the table with CHECKs that state the chosen formats, given as values of each choice.

    Conditions come before the table's own CHECKs. Where some keys of a document are chosen, its
    other keys have a text that most types take.
    """
    checks: list[Check] = []
    documents: dict[str, dict[str, Sequence[str]]] = {}
    columns = {column.name: column for column in table.columns}
    for choice, formats in chosen.items():
        name = choice.columns[0]
        column = columns[name]
        if choice.keys:
            leaves = documents.setdefault(name, dict.fromkeys(choice.keys, (_USUAL,)))
            leaves[choice.keys[0]] = formats
        elif is_array(column.type):
            least, _, template = formats[0].partition(" ")
            templates = (template,) if template else ()
            columns[name] = replace(column, templates=templates, least=int(least))
        elif scale_of(column.type) or labels_of(column.type) or column.type.base in TEXT_BASES:
            text = _condition(column, choice, formats)
            checks.append(Check(FORMAT, text, choice.columns, declared=True))
        else:
            columns[name] = replace(column, templates=tuple(formats))
    for name, leaves in documents.items():
        columns[name] = replace(columns[name], templates=_documents(columns[name], leaves))
    return with_rules(
        replace(table, columns=tuple(columns.values()), checks=(*checks, *table.checks))
    )


def without_formats(table: Table) -> Table:
    """Return the table as the catalog states it, for a public table, whose values are copied."""
    columns = tuple(replace(column, templates=(), least=0) for column in table.columns)
    checks = tuple(c for c in table.checks if not (c.declared and c.name == FORMAT))
    plain = replace(table, columns=columns, checks=checks)
    return table if plain == table else with_rules(plain)


def _condition(column: Column, choice: Choice, formats: Sequence[str]) -> str:
    if column.type.base in TEXT_BASES:
        pattern = f"^({'|'.join(formats)})$"
        return f"({quoted(column.name)} ~ {literal(pattern)}::text)"
    if formats[0] not in choice.values:
        return formats[0]
    plain = column.type.category in "NB"
    items = ", ".join(value if plain else literal(value) for value in formats)
    return f"({quoted(column.name)} IN ({items}))"


def _documents(column: Column, leaves: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Templates of documents with some keys, each with the values that it may have, in turn."""
    turns = range(min(max(map(len, leaves.values())), MAX_TEMPLATES))
    rows = [{key: texts[turn % len(texts)] for key, texts in leaves.items()} for turn in turns]
    return tuple(dict.fromkeys(_document(row, column.type.base, _depth(row)) for row in rows))


def _depth(leaves: Mapping[str, str]) -> int:
    """How deep to nest a document whose keys of objects each hold all other keys."""
    objects = sum(leaf == _OBJECT for leaf in leaves.values())
    deep = (at for at in range(2, _DEPTH + 1) if len(leaves) * objects**at > _LEAVES)
    return next(deep, _DEPTH + 1) - 1


def _document(leaves: Mapping[str, str], base: str, depth: int) -> str:
    """A document as text; where a value is an object, it has all other keys."""
    arrow, start, end = ("=>", "", "") if base == "hstore" else (": ", "{", "}")
    pairs = []
    for key, leaf in leaves.items():
        if leaf == _OBJECT and depth:
            others = {other: text for other, text in leaves.items() if other != key}
            leaf = _document(others, base, depth - 1)
        if leaf:
            pairs.append(f"{json.dumps(key)}{arrow}{leaf}")
    return f"{start}{', '.join(pairs)}{end}"
