"""Literals that are compared with no column: which may stay, and constants for the others."""

import re
from collections.abc import Collection
from zoneinfo import available_timezones

from sqlglot import exp

from privbench.workload.rebind.columns import UNIT, folded
from privbench.workload.rebind.literal_roles import Site

#: Numbers so common that they reveal nothing.
NUMBERS = frozenset({
    *map(str, range(11)), "12", "15", "20", "24", "25", "30", "50", "60", "90", "100", "365",
    "1000", "3600", "86400", "0.0", "0.5", "1.0", "2.0", "10.0", "100.0", "0.1", "0.01",
})  # fmt: skip
_MARKS = re.compile(r"[ \t\n!-/:-@\[-`{-~]{0,2}\Z")
_FLAGS = frozenset({"g", "i", "gi", "ig", "n", "m"})
_FORMAT = re.compile(
    r"(?:YYYY|IYYY|YY|MONTH|MON|MM|DAY|DY|DDD|DD|D|HH24|HH12|HH|MI|SSSS|SS|MS|US|IW|WW|Q|CC|"
    r"AM|PM|TZ|OF|FM|TM|[TZ09., :/_-]){1,24}\Z",
    re.IGNORECASE,
)
_UNITS = frozenset({
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter",
    "year", "decade", "century", "millennium", "dow", "isodow", "doy", "isoyear", "epoch",
})  # fmt: skip
#: Names that a query may give, and columns that every table has: they reveal nothing.
_NAMES = _UNITS | frozenset({
    "avg", "bernoulli", "cmax", "cmin", "cnt", "count", "ctid", "date", "id", "key", "max", "min",
    "name", "num", "rank", "result", "row_number", "sub", "subquery", "sum", "tableoid", "time",
    "total", "type", "value", "x", "xmax", "xmin",
})  # fmt: skip
_SHORT = re.compile(r"[a-z]{1,2}[0-9]?\Z")
_INTERVAL = re.compile(r"(\d+)\s*+([a-z]*)\Z", re.IGNORECASE)
_LARGEST_LIMIT = 1000
_LARGEST_MODIFIER = 10_000
_DEFAULTS = {"limit": "10", "offset": "0", "type": "1", "count": "1", "unit": UNIT, "zone": "UTC",
             "format": "YYYY-MM-DD"}  # fmt: skip
_NUMBERS_OF = (
    "smallint", "int", "bigint", "numeric", "decimal", "real", "double", "float", "oid",
)  # fmt: skip
_BY_TYPE = (
    (("date",), "2000-01-01"),
    (("timestamp",), "2000-01-01 00:00:00"),
    (("time",), "00:00:00"),
    (("interval",), "1 day"),
    (_NUMBERS_OF, "1"),
    (("bool",), "true"),
    (("uuid",), "00000000-0000-0000-0000-000000000000"),
    (("json",), "{}"),
    (("bytea",), ""),
    (("inet", "cidr"), "0.0.0.0"),  # noqa: S104
    (("bit", "varbit"), "0"),
)


def given_names(tree: exp.Expr, known: Collection[str]) -> frozenset[str]:
    """Return names that a query itself defines and that may reveal something about its author.

    These are aliases of tables and columns, and names of sub-queries, WITH queries and windows,
    except for names of the schema, short names and common words. Unquoted names are in lower case.
    """
    names: set[str] = set()
    for node in tree.walk():
        places = [node.args.get("alias")]
        if isinstance(node, exp.TableAlias):
            places = [node.this, *node.columns]
        elif isinstance(node, exp.Window) and not isinstance(node.this, exp.Func):
            places.append(node.this)
        names |= {folded(place) for place in places if isinstance(place, exp.Identifier)}
    return frozenset(name for name in names if not (name in known or tells_nothing(name)))


def tells_nothing(name: str) -> bool:
    """Return whether a name is a word that anybody may have written."""
    return name in _NAMES or _SHORT.match(name) is not None


def kept(site: Site) -> str | None:
    """Return a literal's text if it may stay, as it is or rounded; None if it needs a new value."""
    old = site.mark.original
    if site.role == "position":
        return old if _is_integer(old) and len(old) < 3 else str(site.place)
    if site.role in ("limit", "offset"):
        return _limit(old)
    if site.role == "type":
        return old if _is_integer(old) and len(old) < 6 and int(old) <= _LARGEST_MODIFIER else None
    if site.role == "interval":
        return _interval(site)
    if site.role == "unit":
        return old if old.lower().removesuffix("s") in _UNITS else None
    if site.role == "zone":
        return old if old in available_timezones() else None
    if site.role == "format":
        return old if old and _FORMAT.match(old) else None
    if site.mark.kind == "number":
        return old if old in NUMBERS else None
    harmless = site.mark.kind == "string" and (_MARKS.match(old) or old in _FLAGS or old in NUMBERS)
    return old if harmless else None


def constant(site: Site, type_name: str | None = None) -> str:
    """Return the constant for a literal that is not kept."""
    if site.role == "interval":
        match = _INTERVAL.match(site.mark.original.strip())
        unit = match[2].lower().removesuffix("s") if match else ""
        return f"1 {unit}" if unit in _UNITS else "1" if match and not unit else "1 day"
    if site.role in _DEFAULTS:
        return _DEFAULTS[site.role]
    if site.mark.kind == "number":
        return "1.0" if "." in site.mark.original else "1"
    if site.mark.kind == "bits":
        return "0"
    return of_type(type_name or site.cast)


def numeric(type_name: str) -> bool:
    """Return whether a type's constants are numbers."""
    return type_name.startswith(_NUMBERS_OF) and not type_name.startswith("interval")


def of_type(name: str) -> str:
    """Return a constant of a type.

    >>> of_type("timestamp without time zone"), of_type("integer[]"), of_type("text")
    ('2000-01-01 00:00:00', '{}', 'x')
    """
    if name.endswith("[]"):
        return "{}"
    return next((text for starts, text in _BY_TYPE if name.startswith(starts)), "x")


def _is_integer(text: str) -> bool:
    """Whether a text is a whole number; ``isdigit`` alone takes ``²`` too."""
    return text.isascii() and text.isdigit()


def _limit(old: str) -> str | None:
    """A small limit unchanged, a large one rounded to its first digit."""
    if not _is_integer(old):
        return None
    old = old.lstrip("0") or "0"
    if len(old) < 5 and int(old) <= _LARGEST_LIMIT:
        return old
    return old[0] + "0" * (len(old) - 1)


def _interval(site: Site) -> str | None:
    match = _INTERVAL.match(site.mark.original.strip())
    if match is None or match[1] not in NUMBERS:
        return None
    unit = match[2].lower().removesuffix("s")
    return site.mark.original if not unit or unit in _UNITS else None
