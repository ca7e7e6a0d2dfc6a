"""Kinds of texts, labels and ranges that names and defaults suggest; they are public and free."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import permutations
from typing import Any

from privbench.schema import Column, Table
from privbench.words import listed, noun, singular, snake


@cache
def packaged(name: str, package: str = "privbench.rules") -> dict[str, Any]:
    """Return the content of a JSON file in a package's ``data``; callers must not change it."""
    path = resources.files(package) / "data" / f"{name}.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def whole(names: str) -> re.Pattern[str]:
    """Return a pattern that must match a name from end to end."""
    return re.compile(f"(?:{names})\\Z")


@dataclass(frozen=True, slots=True)
class Semantic:
    """A semantic type, such as a name, an e-mail address or a city."""

    provider: str  # the name of Faker's provider for it
    # Whether common values may still be released as categories under δ (a city may, an e-mail
    # address never).
    listed: bool


#: A prefix is ignored if at least so many columns of a table, and at least this share of them, have
#: it.
_LEAST_ALIKE, _ALIKE = 3, 0.8


def by_name(column: str) -> Semantic | None:
    """Return the semantic type that a column's name suggests, or None.

    >>> by_name("EmailAddress").provider, by_name("first_name").listed, by_name("emailpromotion")
    ('email', True, None)
    """
    item = _first("names", "semantic", column)
    return None if item is None else Semantic(item["provider"], item["listed"])


def plain_name(column: str, table: Table) -> str:
    """Return a column's name without a prefix that nearly all columns of its table share.

    Examples are ``c_phone`` beside ``c_name``, and ``ps_comment`` beside ``ps_availqty``.
    """
    prefix = re.match(r"[^\W_]+_(?=[^\W\d_])", column)
    if prefix is None:
        return column
    names = [item.name for item in table.columns]
    alike = sum(name.startswith(prefix[0]) for name in names)
    enough = alike >= max(_LEAST_ALIKE, _ALIKE * len(names))
    return column[prefix.end() :] if enough else column


def of_table(column: str, table: str) -> Semantic | None:
    """Return a column's semantic type by its table's name, as ``name`` in a table of customers.

    >>> of_table("name", "Customers").provider, of_table("name", "genres"), of_table("id", "users")
    ('name', None, None)
    """
    people = listed("tables", "subject") | listed("tables", "work")
    person = snake(column) == "name" and not people.isdisjoint(noun(table)[-1:])
    return Semantic("name", False) if person else None


def is_kind(column: str) -> bool:
    """Return whether a column's name suggests that many rows share few values (type, status)."""
    words, glued = ("|".join(packaged("names")[name]) for name in ("kinds", "glued"))
    return re.match(rf"(\w*_)?({words})s?\Z|\w*({glued})\Z", snake(column)) is not None


def said(kind: str, column: str) -> bool:
    """Return whether a column's name is of a kind: ``positions`` of rows, begin of ``versions``."""
    return re.fullmatch(packaged("names")[kind], snake(column)) is not None


def is_own(column: str) -> bool:
    """Return whether a column's name suggests that few rows share a value (title, comment).

    >>> is_own("c_comment"), is_own("OrderNumber"), is_own("title_of_courtesy"), is_own("clerk")
    (True, True, False, False)
    """
    words = "|".join(packaged("names")["own"])
    return re.match(rf"(\w*_)?({words})s?\Z", snake(column)) is not None


#: Columns of look-up tables whose content the table's name suggests.
_PLAIN = frozenset({"name", "code", "label", "title", "value"})


def suggested_labels(
    column: str, least: int = 0, greatest: int | None = None, *, table: str = ""
) -> tuple[str, ...]:
    """Return likely labels for a column of which no list is known, the most frequent first.

    >>> suggested_labels("gender", greatest=1)[:2], suggested_labels("Ship_Country")[:2]
    (('M', 'F'), ('USA', 'US'))
    >>> suggested_labels("name", table="Countries")[:2], suggested_labels("name", table="people")
    (('USA', 'US'), ())
    """
    if snake(column) in _PLAIN and table:
        column = f"{singular(snake(table))}_{column}"
    item = _first("suggestions", "lists", column)
    if item is not None:
        result = item["labels"]
    else:
        result = packaged("suggestions")["kinds"] if is_kind(column) else ()
    top = max(map(len, result), default=0) if greatest is None else greatest
    return tuple(label for label in result if least <= len(label) <= top)


def suggested_range(column: str, *, whole: bool = True) -> tuple[str, str, bool] | None:
    """Return the range that a number column's name suggests; None without a suggestion.

    It consists of literals of both ends, and whether no value of its kind exceeds them: there is no
    thirteenth month. Some suggestions, those of flags and codes, apply to ``whole`` numbers alone:
    ``approved`` may also be an amount.

    >>> suggested_range("birthYear")[1], suggested_range("points")
    ('2030', None)
    >>> suggested_range("exp_month")[2], suggested_range("age")[2]
    (True, False)
    """
    item = _first("suggestions", "ranges", column)
    if item is None or (item.get("whole", False) and not whole):
        return None
    return item["low"], item["high"], item.get("firm", False)


def suggested_dates(column: str) -> tuple[str, str] | None:
    """Return the range (as literals) that a date column's name suggests, used if none is released.

    >>> suggested_dates("BirthDate"), suggested_dates("order_date")
    (('1930-01-01', '2010-01-01'), None)
    """
    item = _first("suggestions", "dates", column)
    return None if item is None else (item["low"], item["high"])


def _first(file: str, kind: str, column: str) -> dict[str, Any] | None:
    """The first entry of a list whose pattern matches a column's name."""
    name = snake(column)
    return next((item for names, item in _suggestions(file, kind) if names.match(name)), None)


@cache
def _suggestions(file: str, kind: str) -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """The entries of a list with their patterns; most ranges exclude names of counts and rates."""
    lists = packaged(file)
    counts = f"(?!{lists.get('counts', '')})"
    return [
        (whole(f"{'' if item.get('count', True) else counts}(?:{item['names']})"), item)
        for item in lists[kind]
    ]


#: A string literal, perhaps cast to a type, without escapes; other expressions do not match.
_LITERAL = re.compile(r"'((?:[^'\\]|'')*)'(?:::[^':()]+(?:\(\d+\))?)?\Z")


def default_label(column: Column, least: int, greatest: int) -> str | None:
    """Return the literal that a text column has by default; None without one of fitting length.

    Many rows are likely to have this value, and it is public: the DDL in a model states it.

    >>> from privbench.schema import ColumnType
    >>> zone = Column("zone", 1, ColumnType("text", "text"), default="'It''s UTC'::text")
    >>> default_label(zone, 0, 128), default_label(zone, 0, 3)
    ("It's UTC", None)
    """
    result = _LITERAL.match(column.default or "")
    if result is None or column.generated:
        return None
    text = result[1].replace("''", "'")
    if column.type.base == "bpchar":
        text = text.rstrip(" ")
    return text if least <= len(text) <= greatest else None


#: Types of dates.
DATES = ("date", "timestamp", "timestamptz")
#: Words at the end of a column's name that say only that it holds dates.
_MARKS = re.compile(
    r"(?<=[a-z])(?<!up)(_?(date_?times?|date|times?|time_?stamps?|dt|dttm|utc|tstz)|_(at|on|ts|day))\Z"
)
#: Words at the end of a column's name that say only how a date is written.
_BARE = re.compile(r"(_?times?|_(key|sk|txt|text|str|string|num|int|raw|ms|millis|seconds))+\Z")
#: Least letters of a word for an earlier or later date that counts by itself.
_LEAST_WORD = 4
#: Most date columns of one table whose names are compared.
_MOST_DATES = 40


@cache
def _date_words(kind: str = "orders") -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Pairs of patterns: a word for an earlier date, or number, and one for the later."""
    pairs = packaged("names")[kind]
    return tuple((re.compile(before), re.compile(after)) for before, after in pairs)


def named_orders(table: Table, numbers: str = "extents") -> Iterator[tuple[str, str]]:
    """Yield pairs of columns of one type whose names say that one comes before the other.

    Names are public, so this costs no budget: a return comes after its rental, an end after its
    beginning, a maximum after its minimum. The ``spans`` of numbers may be no order (latitudes).

    >>> from privbench.schema import ColumnType, TableName
    >>> kind = ColumnType("date", "date", category="D")
    >>> names = ("rental_date", "returned_on", "ShipDate", "orderdate", "note_date")
    >>> columns = tuple(Column(name, i, kind) for i, name in enumerate(names))
    >>> list(named_orders(Table(TableName("public", "t"), columns)))
    [('rental_date', 'returned_on'), ('orderdate', 'ShipDate')]
    """
    dates = [column for column in table.columns if _is_date(column)]
    # The names without the words that only say that the column holds dates.
    yield from _ordered({c: _MARKS.sub("", snake(c.name)) for c in dates}, "orders")
    rest = [c for c in table.columns if not (c in dates or c.generated or is_own(c.name))]
    free = [c for c in rest if c.type.category == "N" and c.name not in table.key_columns]
    yield from _ordered({c: snake(c.name) for c in free}, numbers)


def _ordered(cores: dict[Column, str], kind: str) -> Iterator[tuple[str, str]]:
    for one, other in permutations([*cores][:_MOST_DATES], 2):
        same = one.type.base == other.type.base if kind == "orders" else one.type == other.type
        if same and _follows(cores[one], cores[other], kind):
            yield one.name, other.name


def creation_date(table: Table) -> str:
    """Return the column with the date on which a row began, by its name or as only date, or "".

    Birthdays do not count, nor dates whose names say that they come later. Names are public.
    """
    ranges = (c for c in table.columns if c.type.kind == "r" and c.type.parts[0].base in DATES)
    known = [*filter(_is_date, table.columns)] or [*ranges]
    dates = [(plain_name(c.name, table), c.name) for c in known]
    cores = {
        _MARKS.sub("", snake(plain)): name for plain, name in dates if not suggested_dates(plain)
    }
    words, title = _date_words(), snake(table.name.name)
    firsts = (*map(re.compile, packaged("names")["creations"]), *(before for before, _ in words))
    own = (core for core in cores if core in (title, title[:-1], title[:-2]))
    named = (core for first in firsts for core in cores if first.fullmatch(core))
    late = any(after.fullmatch(core) for core in cores for _, after in words)
    only = () if late or len(cores) > 1 else cores
    return next((cores[core] for core in (*own, *named, *only)), "")


@cache
def is_moment(column: str) -> bool:
    """Return whether a column's name suggests that its texts or numbers are dates or times.

    >>> [is_moment(name) for name in ("day_key", "BirthDate", "start_time", "lap_time", "days")]
    [True, True, True, False, False]
    """
    core = _BARE.sub("", snake(column))
    words = core.split("_")
    fields = re.compile("|".join(packaged("names")["moments"]))
    known = [pattern for pair in _date_words() for pattern in pair]
    # Of short words, as "in" and "to", none counts by itself; a time is one that begins or ends.
    whole_words = len(words[-1]) >= _LEAST_WORD and any(
        pattern.fullmatch(text) for pattern in known for text in (core, words[-1])
    )
    marked = suggested_dates(core) is not None or _MARKS.search(core) is not None
    return whole_words or marked or ("per" not in words and any(map(fields.fullmatch, words)))


def _is_date(column: Column) -> bool:
    dated = column.dated or (column.type.base in DATES and column.type.kind in "bd")
    return bool(dated) and not column.generated


def _follows(before: str, after: str, kind: str) -> bool:
    """Whether two names differ in one word only, by which the first one precedes the other."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    # Letters that both names share may belong to the words that differ ("created", "closed").
    return any(
        one.fullmatch(before[first : len(before) - last])
        and other.fullmatch(after[first : len(after) - last])
        for first in {0, head, _word(before, head)}
        for last in {0, tail, _word(before[::-1], tail)}
        for one, other in _date_words(kind)
    )


def _common(one: str, other: str) -> int:
    """The length of the common beginning of two texts."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _word(text: str, place: int) -> int:
    """Start of the word around a place; underscores separate words."""
    return text.rfind("_", 0, place) + 1
