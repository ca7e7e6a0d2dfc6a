"""Public formats of texts: dates, numbers, codes, addresses, lists; and texts made in them.

The list is ``data/text_formats.json``: a name, the pattern (RE2) of the texts that have the format,
and how texts are made in it. It follows public standards: dates, weeks and times of ISO 8601 and
the usual national spellings, timestamps of SQL and POSIX, UUID (RFC 4122), URI (RFC 3986), e-mail
addresses (RFC 5322), IPv4 (RFC 791) and MAC addresses (IEEE 802), JSON (RFC 8259), telephone
numbers (E.123), currencies (ISO 4217), versions (Semantic Versioning), hashes (RFC 1321, FIPS
180), ULID, and arrays of PostgreSQL. A text has the first format whose pattern it matches: a public
map of its own value.

A template after ``date:`` is one of strftime; ``days 1-12`` behind it are the first and last day of
the month, and ``#`` in it is a number. Other templates are regular expressions, in which ``{*}``
stands for as many characters as the length of the text leaves. An empty one stands for a maker of
`surrogate_text`.
"""

import re
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Ints, Rng
from privbench.encoding.uniqueness import ranks
from privbench.rules.named import packaged
from privbench.rules.texts import PatternNode, parse

#: Names of the formats with their patterns, in the order in which they are tried.
FORMATS: tuple[tuple[str, str], ...] = tuple(
    (name, pattern)
    for name, pattern, _ in packaged("text_formats", "privbench.encoding")["formats"]
)
_TEMPLATES: dict[str, str] = {
    name: template
    for name, _, template in packaged("text_formats", "privbench.encoding")["formats"]
    if template
}
#: Years of dates of which no range is released: those of the other default dates.
_YEARS = (2000, 2030)
#: The most characters that a template's free part gets.
_FREE = 128
#: Lengths of the greatest int4 and int8: digits of these lengths begin with 1, so that they fit.
GREATEST = (10, 19)


def has_template(name: str) -> bool:
    """Return whether texts of a shape are made from a template."""
    return name in _TEMPLATES


def formatted(name: str, lengths: Ints, rng: Rng, days: Ints | None = None) -> pa.Array:
    """Return texts in a format with a template, of about these lengths.

    Dates lie on the given days.
    """
    template = _TEMPLATES[name]
    if template.startswith("date:"):
        return _dates(template.removeprefix("date:"), len(lengths), rng, days)
    if "{*}" not in template:
        return _tree(template).make(len(lengths), 0, rng)
    least = len(_tree(template.replace("{*}", "{0}")).make(1, 0, rng)[0].as_py())
    free = np.clip(lengths - least, 0, _FREE)
    order, parts = np.argsort(free, kind="stable"), []
    for size in np.unique(free).tolist():
        wide = template.replace("{*}", f"{{{size}}}")
        if name == "digits" and least + size in GREATEST:
            wide = f"1[0-9]{{{size}}}"
        parts.append(_tree(wide).make(int((free == size).sum()), 0, rng))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return pa.concat_arrays([part.cast(pa.string()) for part in parts]).take(pa.array(place))


@lru_cache(maxsize=1024)
def _tree(template: str) -> PatternNode:
    return parse(template)


#: What stands in a spelling, and how many digits it has; Q1 is a quarter.
_FIELD = re.compile("%([YGmbdVs])|(Q)1")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WIDTHS = {"Y": 4, "G": 4, "m": 2, "b": 2, "d": 2, "V": 2, "Q": 1}


def days_of(text: pa.Array) -> pa.Array:
    """Return the days since 1970 of texts that are dates in a known format; NULL for other texts.

    A month, week, quarter or year counts as its first day. A day that its month does not have
    counts as the month's last day; where day and month are ambiguous, the month comes first. So the
    result is a public map of each text by itself, and no text causes an error.

    >>> days_of(pa.array(["19700103", "1970-02", "1970-W02", "70", None])).to_pylist()
    [2, 31, 4, None, None]
    """
    encoded = text.cast(pa.string()).dictionary_encode()
    known = encoded.dictionary
    days, left = np.zeros(len(known), np.int64), np.ones(len(known), np.bool_)
    for name, pattern in FORMATS:
        template = _TEMPLATES.get(name, "")
        if not template.startswith("date:") or not _FIELD.search(template):
            continue
        match = np.asarray(pc.match_substring_regex(known, pattern)) & left
        rows = np.flatnonzero(match)
        days[rows], left[rows] = _read_days(template, known.take(pa.array(rows))), False
    return pa.array(days, mask=left).take(encoded.indices)


#: Letters, perhaps with a year, before a number; or nothing, of the empty text.
_BEGINNING = r"^(?:(?P<begun>[A-Za-z]{1,9}[-_/#.: ]?(?:(?:19|20)[0-9]{2}[-_/])?)[0-9]+)?$"


def beginnings_of(text: pa.Array, other: str) -> pa.Array:
    """Return the part of each text before its number; ``other`` for a text of another form.

    >>> beginnings_of(pa.array(["INV-2021-017", "x", "", None]), "?").to_pylist()
    ['INV-2021-', '?', '', None]
    """
    beginnings = pc.struct_field(pc.extract_regex(text, _BEGINNING), "begun")
    rest = pc.if_else(pc.is_valid(text), other, pa.scalar(None, pa.string()))
    return pc.coalesce(beginnings.cast(pa.string()), rest)


def numbers_after(begun: pa.Array, surrogates: pa.Array, most: int, rng: Rng) -> pa.Array:
    """Append numbers to beginnings of texts.

    Texts of ``surrogates`` are used if there is no beginning or no room. Rows with the same
    beginning are numbered from 1, the shortest texts first, with as many leading zeros as their
    lengths need.
    """
    sizes = np.asarray(pc.utf8_length(surrogates))
    code = np.asarray(begun.dictionary_encode().indices.fill_null(-1))
    number = ranks(code, sizes, rng.random(len(code))) + 1
    digits, zero = pa.array(number).cast(pa.string()), pa.scalar("0")
    room = pc.subtract(pc.subtract(pa.array(sizes), pc.utf8_length(begun)), pc.utf8_length(digits))
    zeros = pc.binary_repeat(zero, pc.max_element_wise(room, 0, skip_nulls=False))
    whole = pc.binary_join_element_wise(begun, zeros, digits, "")
    whole = pc.if_else(pc.equal(begun, ""), "", whole)
    fits = pc.less_equal(pc.utf8_length(whole), most).fill_null(False)
    return pc.if_else(fits, whole, surrogates)


def _read_days(template: str, text: pa.Array) -> Ints:
    for number, name in enumerate(_MONTHS if "%b" in template else (), 1):
        text = pc.replace_substring(text, name, f"{number:02}")
    digits, at, fields = pc.replace_substring_regex(text, "[^0-9]", ""), 0, dict[str, Ints]()
    for plain, quarter in _FIELD.findall(template):
        width = _WIDTHS.get(plain or quarter, 10)
        part = pc.utf8_slice_codeunits(digits, at, at + width)
        fields[plain or quarter] = np.asarray(part.cast(pa.int64()))
        at += width
    if "s" in fields:
        return fields["s"] // 86_400
    year = fields["Y"] if "Y" in fields else fields["G"]
    month = fields.get("m", fields.get("b"))
    month = 3 * fields.get("Q", np.array(1)) - 2 if month is None else month
    months = (year - 1970) * 12 + month - 1
    first, end = (_first_day(months + more) for more in (0, 1))
    if "V" in fields:
        # The fourth of January lies in the first week; 1970 began on a Thursday.
        return first + 3 - (first + 6) % 7 + 7 * (fields["V"] - 1)
    return np.minimum(first + fields.get("d", np.array(1)), end) - 1


def _first_day(months: Ints) -> Ints:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _dates(template: str, rows: int, rng: Rng, known: Ints | None = None) -> pa.Array:
    """Dates and times of a day in a spelling; random dates unless days are given."""
    spelling, _, days = template.partition(" days ")
    first, last = map(int, (days or "1-31").split("-"))
    year = rng.integers(*_YEARS, size=rows)
    month = ((year - 1970) * 12 + rng.integers(12, size=rows)).astype("datetime64[M]")
    start = month.astype("datetime64[D]")
    length = ((month + 1).astype("datetime64[D]") - start).astype(np.int64)
    day = first - 1 + np.floor(rng.random(rows) * (np.minimum(length, last) - first + 1))
    second = rng.integers(86_400, size=rows).astype("timedelta64[s]")
    date = start + day.astype("timedelta64[D]")
    date = date if known is None else known.astype("datetime64[D]")
    moment = date.astype("datetime64[s]") + second
    if spelling.startswith("%s"):
        texts = pa.array(moment.astype(np.int64)).cast(pa.string())
        return pc.binary_join_element_wise(texts, spelling[2:], "")
    # Arrow prints fractions of a second unless the type has none.
    texts = pc.strftime(pa.array(moment, pa.timestamp("s")), format=spelling)
    if "#" not in spelling:
        return texts
    number = pa.array(rng.integers(10**6, 2 * 10**6, size=rows)).cast(pa.string())
    number = pc.utf8_slice_codeunits(number, 1)
    return pc.binary_join_element_wise(pc.replace_substring(texts, "#", ""), number, "")
