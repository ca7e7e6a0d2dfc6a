"""Field types with limits of size and form, for model files of unknown origin.

They are the types of fields in the records of a model file (`privbench.schema`, events, header),
and are checked where such a file is read; records of our own are not checked again. The DDL and the
expressions are only limited as texts here; what they may do is checked where they are used.
"""

import re
from typing import Annotated, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, ValidationError

#: How deep brackets in a file may be nested; and the bytes of a name, as in PostgreSQL.
MAX_DEPTH, MAX_NAME = 64, 63
#: Limits of an expression: characters, depth of brackets, and number of operators with AND and OR.
MAX_EXPRESSION, MAX_BRACKETS, MAX_OPERATORS = 2**17, 100, 2000
MAX_COLUMNS, MAX_PARTS, MAX_PARTITIONS, MAX_RULES = 1600, 10_000, 100_000, 100_000
#: The most characters of a text that is no name (labels, CHECKs); and the most labels of a type.
MAX_TEXT, MAX_LABELS = 2**20, 2**20

#: The schema that marks a database as an unfinished load; no model and no source may have it.
UNFINISHED = "privbench unfinished load"
#: What the comment of a database says that a load has filled.
CLONE = "Synthetic clone, written by privbench load."

_SYSTEM = re.compile(rf"pg_|(?:information_schema|{UNFINISHED})\Z")
_ESCAPED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_OPERATOR = re.compile(r"(?<!\w)(?:AND|OR|NOT|CASE|IS|LIKE|IN)(?!\w)|::|[-+*/<>=~!@#%^&|`?]+", re.I)

_IDENTIFIER = r'(?:"(?:[^"\0]|"")+"|[^\W\d][\w$]*)'
_FIELD = "(?:year|month|day|hour|minute|second)"
#: How `format_type` writes a type: a name, with its schema, or one of SQL's own of several words.
TYPE = re.compile(
    rf"""(?:
      double\ precision | (?:character|bit)\ varying(?:\(\d+\))?
    | (?:time|timestamp)(?:\(\d\))?\ with(?:out)?\ time\ zone
    | interval(?:\ {_FIELD}(?:\ to\ {_FIELD})?)?(?:\(\d\))?
    | {_IDENTIFIER}(?:\.{_IDENTIFIER})?(?:\(-?\w+(?:,\s?-?\w+)*\))?
    )(?:\[\])*""",
    re.VERBOSE,
)


def _name(text: str) -> str:
    if not 0 < len(text.encode()) <= MAX_NAME:
        raise ValueError(f"a name must have 1 to {MAX_NAME} bytes")
    return text


def _label(text: str) -> str:
    return _name(text) if text else text


def _space(text: str) -> str:
    if _SYSTEM.match(text):
        raise ValueError("reserved schemas are not a model's")
    return _name(text)


def _type_text(text: str) -> str:
    if len(text) > MAX_TEXT or not TYPE.fullmatch(text):
        raise ValueError("not the name of a type")
    return text


def expression(text: str) -> str:
    """Return the expression if it is short and flat enough to be parsed.

    Else raise a ValueError.
    """
    plain = _ESCAPED.sub("x", text) if len(text) <= MAX_EXPRESSION else ""
    if len(text) > MAX_EXPRESSION or len(_OPERATOR.findall(plain)) > MAX_OPERATORS:
        raise ValueError("the expression is too long")
    if depth(plain.encode()) > MAX_BRACKETS:
        raise ValueError("the expression is nested too deeply")
    return text


def depth(text: bytes) -> int:
    """Return how deeply brackets of any kind are nested."""
    marks = np.frombuffer(text, np.uint8)
    steps = np.isin(marks, list(b"([{")).astype(np.int32)
    steps -= np.isin(marks, list(b")]}")).astype(np.int32)
    return int(np.cumsum(steps).max(initial=0))


def json_depth(text: bytes) -> int:
    r"""Return how deeply arrays and objects of a JSON text are nested, ignoring its strings.

    >>> json_depth(b'{"a": ["[[[", "\\"[["]}')
    2
    """
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = np.frombuffer(plain, np.uint8)
    inside = np.logical_xor.accumulate(marks == ord('"'))
    return depth(marks[~inside].tobytes())


Element = TypeVar("Element")

PgName = Annotated[str, AfterValidator(_name)]
Label = Annotated[str, AfterValidator(_label)]
SchemaName = Annotated[str, AfterValidator(_space)]
TypeText = Annotated[str, AfterValidator(_type_text)]
Expression = Annotated[str, AfterValidator(expression)]
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Natural = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=0, le=2**31)]
TypeModifier = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Bigint = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Amount = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
#: Lists with at most as many items as a table may have columns, or a schema parts.
ColumnTuple = Annotated[tuple[Element, ...], Field(max_length=MAX_COLUMNS)]
PartTuple = Annotated[tuple[Element, ...], Field(max_length=MAX_PARTS)]


def faults(error: ValidationError) -> list[str]:
    """Return pydantic's messages with the place of each fault, but without the value.

    The value is left out as it may be secret.
    """
    messages = []
    for fault in error.errors(include_input=False, include_url=False):
        place = ".".join(str(step)[:80] for step in fault["loc"])
        text = fault["msg"].removeprefix("Value error, ")
        messages.append(f"{place}: {text}" if place else text)
    return messages
