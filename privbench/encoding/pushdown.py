"""Codes as SQL: what `ColumnReader.read` and a `Recoding` make of a value, done by an engine.

Of integers, numeric, dates, times and booleans, enums, declared lists, and texts once their list
is released. What is not here (floats, intervals, lengths and shapes of texts) is encoded by the
readers. An expression is made for PostgreSQL and written for another engine by sqlglot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from psycopg import sql
from sqlglot import exp, parse_one

from privbench.encoding.base import ColumnReader
from privbench.encoding.categories import LabelReader, ListReader
from privbench.encoding.dates import DateScale, TimestampScale
from privbench.encoding.numbers import IntegerScale, NumericScale
from privbench.encoding.ordered import OrderedCodec, OrderedReader
from privbench.encoding.scale import Scale
from privbench.encoding.text import TextReader
from privbench.encoding.times import TimeScale
from privbench.privacy.recoding import (
    ABOVE,
    BELOW,
    IS_NAN,
    IS_NEG_INF,
    IS_POS_INF,
    NAN,
    NEG_INF,
    POS_INF,
    EdgesRecoding,
    LabelsRecoding,
    Recoding,
)

#: Scales whose points SQL computes exactly in every engine, and in PostgreSQL, which readers ask.
_SCALES = (IntegerScale, NumericScale, DateScale)
_POSTGRES = (*_SCALES, TimestampScale, TimeScale)
#: Most arms of one CASE.
MOST_ARMS = 4096


@dataclass(frozen=True)
class Pushed:
    """An attribute's codes as SQL.

    Attributes:
        value: An expression over the columns of the table: a grid point or a text.
        code: The code, from the value's name.
    """

    value: exp.Expression
    code: Callable[[exp.Expression], exp.Expression]


def pushed(
    reader: ColumnReader, name: str, recoding: Recoding | None, dialect: str = "postgres"
) -> Pushed | None:
    """An attribute's codes as SQL, or None where only the reader makes them.

    Args:
        reader: The column's reader.
        name: The attribute.
        recoding: What its grid or labels were recoded by; None where the domain was public.
        dialect: The engine's SQL, by sqlglot's name.
    """
    if name != reader.name or reader.column.collation is not None:
        # Under a collation of its own, different texts may be equal.
        return None
    if dialect != "postgres" and reader.column.type.kind != "b":
        # How PostgreSQL prints a type of users, other engines do not know.
        return None
    scales = _POSTGRES if dialect == "postgres" else _SCALES
    value = expression(reader.select(sql.Identifier(reader.name))[0][0])
    if isinstance(reader, OrderedReader) and isinstance(reader.scale, scales):
        if recoding is None:
            codec = reader.finish({})
            assert isinstance(codec, OrderedCodec)
            recoding = codec.recoding
        assert isinstance(recoding, EdgesRecoding)
        return _ordered(value, recoding, reader.scale.specials)
    if isinstance(reader, ListReader):
        return _listed(value, reader, scales)
    if isinstance(reader, LabelReader | TextReader) and isinstance(recoding, LabelsRecoding):
        domain = recoding.domain
        other = domain.special_code("other") if recoding.other else None
        missing = other if other is not None else domain.null_code or 0
        null = domain.null_code if domain.null_code is not None else missing
        return _texts(value, recoding.values, missing, null)
    return None


def expression(text: sql.Composable) -> exp.Expression:
    """SQL of a reader as a tree, without schemas: the search path holds ``pg_catalog`` alone."""
    return parse_one(text.as_string(None), dialect="postgres").transform(_plain)


def _plain(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.Dot) and node.this.name == "pg_catalog":
        return node.expression.transform(_plain)  # type: ignore[no-any-return]
    if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.USERDEFINED:
        return exp.DataType.build(node.args["kind"].sql("postgres").removeprefix("pg_catalog."))
    bare = isinstance(node, exp.Cast) and node.args["to"].sql("postgres") == "DECIMAL"
    if bare and isinstance(node.this, exp.Literal):
        # Elsewhere a bare DECIMAL has three decimals; a number has its own.
        return expression(sql.SQL("({})").format(sql.Literal(Decimal(node.this.name))))
    return node


def _number(value: int) -> exp.Expression:
    return exp.Literal.number(value)


def _ordered(
    value: exp.Expression, recoding: EdgesRecoding, specials: Sequence[str]
) -> Pushed | None:
    """`EdgesRecoding.apply`, its rules in the order in which they win.

    A sentinel is one where the type has that special value; of integers it is a number like others.
    """
    edges, domain = recoding.edges, recoding.domain
    if len(edges) > MOST_ARMS and not _equal_cells(edges):
        return None
    last = len(edges) - 2
    null = domain.null_code or 0

    def special(*names: str, default: int) -> exp.Expression:
        found = (domain.special_code(name) for name in names if name in recoding.specials)
        return _number(next(found, default))

    def code(point: exp.Expression) -> exp.Expression:
        sentinels = (
            (IS_NAN, NAN, special(IS_NAN, default=null)),
            (IS_POS_INF, POS_INF, special(IS_POS_INF, ABOVE, default=last)),
            (IS_NEG_INF, NEG_INF, special(IS_NEG_INF, BELOW, default=0)),
        )
        rules = (
            (point.is_(exp.null()), _number(null)),
            *(
                (point.eq(_number(mark)), then)
                for name, mark, then in sentinels
                if name in specials
            ),
            (exp.GTE(this=point, expression=_number(edges[-1])), special(ABOVE, default=last)),
            (exp.LT(this=point, expression=_number(edges[0])), special(BELOW, default=0)),
        )
        case = exp.Case()
        for condition, then in rules:
            case = case.when(condition, then)
        return case.else_(_cell(point, edges))

    return Pushed(value, code)


def _equal_cells(edges: Sequence[int]) -> bool:
    return len({high - low for low, high in pairwise(edges)}) == 1


def _cell(point: exp.Expression, edges: Sequence[int]) -> exp.Expression:
    """The position of a point between its edges."""
    if _equal_cells(edges):
        width = edges[1] - edges[0]
        steps = exp.paren(exp.Sub(this=point, expression=exp.paren(_number(edges[0]))))
        return divided(steps, _number(width))
    return steps_of(point, edges[1:-1], range(len(edges) - 1))


def steps_of(point: exp.Expression, cuts: Sequence[int], codes: Sequence[int]) -> exp.Expression:
    """A code from the number of cuts that a point is not below: a tree of CASEs, by halves."""
    if not cuts:
        return _number(codes[0])
    middle = len(cuts) // 2
    low = steps_of(point, cuts[:middle], codes[: middle + 1])
    high = steps_of(point, cuts[middle + 1 :], codes[middle + 1 :])
    return exp.Case().when(exp.LT(this=point, expression=_number(cuts[middle])), low).else_(high)


def divided(one: exp.Expression, other: exp.Expression) -> exp.Expression:
    """The whole part of a quotient of numbers that are not negative."""
    return exp.cast(exp.IntDiv(this=one, expression=other), "bigint")


def _listed(
    value: exp.Expression, reader: ListReader, scales: tuple[type[Scale], ...]
) -> Pushed | None:
    """`ListReader.read`."""
    domain, scale = reader.domain, reader.scale
    missing = domain.special_code("other") if reader.other else domain.values - 1
    null = missing if domain.null_code is None else domain.null_code
    if scale is None:
        return _texts(value, reader.values, missing, null)
    if not isinstance(scale, scales):
        return None
    points = [_number(scale.parse(text)) for text in reader.values]
    return _cases(value, points, missing, null)


def _texts(value: exp.Expression, values: Sequence[str], missing: int, null: int) -> Pushed | None:
    return _cases(value, [exp.Literal.string(text) for text in values], missing, null)


def _cases(
    value: exp.Expression, values: Sequence[exp.Expression], missing: int, null: int
) -> Pushed | None:
    if len(values) > MOST_ARMS:
        return None

    def code(found: exp.Expression) -> exp.Expression:
        case = exp.Case().when(found.is_(exp.null()), _number(null))
        for position, listed in enumerate(values):
            case = case.when(found.eq(listed), _number(position))
        return case.else_(_number(missing))

    return Pushed(value, code)
