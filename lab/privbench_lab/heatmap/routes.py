"""Turns a set of codes of a model's column into a condition on its values, in SQL and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg import sql

from privbench.encoding import Codec
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.scale import scale_of
from privbench.postgres.csvtext import csv_blocks
from privbench.postgres.statement import build
from privbench.privacy.recoding import ABOVE, BELOW, IS_NAN, IS_NEG_INF, IS_POS_INF, OTHER

#: Values that a condition on a list shows by name; of the others, only the number is shown.
_NAMED = 3
_INTEGERS, _FLOATS = ("int2", "int4", "int8"), ("float4", "float8")


def drawable(codec: Codec) -> bool:
    """Whether conditions can select sets of a column's codes: grids, lists and labels."""
    return isinstance(codec, OrderedCodec) or codec.listed is not None


def route_of(codec: Codec, mask: NDArray[np.bool_]) -> tuple[sql.Composable, str]:
    """The condition that a value has one of some codes, of a codec that is `drawable`.

    `mask`, shape (domain size,), selects at least one code. Returns an SQL condition with the bare
    column name, which is never NULL, and the same condition in words.
    """
    null = codec.domains[codec.column].null_code
    nulls = null is not None and bool(mask[null])
    if isinstance(codec, OrderedCodec):
        condition, words = _ordered(codec, mask)
    else:
        condition, words = _listed(codec, mask)
    name = codec.column
    if condition is None:
        return build("{} IS NULL", name), f"{name} is NULL"
    # Rows with NULL are routed to the node that has the code of NULL.
    if nulls:
        return build("({} OR {} IS NULL)", condition, name), f"{name} {words} or NULL"
    return build("coalesce({}, false)", condition), f"{name} {words}"


def _listed(codec: Codec, mask: NDArray[np.bool_]) -> tuple[sql.Composable | None, str]:
    domain, values = codec.domains[codec.column], codec.listed or ()
    chosen = [value for value, kept in zip(values, mask, strict=False) if kept]
    others = [value for value, kept in zip(values, mask, strict=False) if not kept]
    outside = OTHER in domain.specials and bool(mask[domain.special_code(OTHER)])
    if not chosen and not outside:
        return None, ""
    named = others if outside else chosen
    form = "NOT ({} = ANY({}::{}[]))" if outside else "{} = ANY({}::{}[])"
    condition = build(form, codec.column, sql.Literal(named), sql.SQL(codec.type.sql))
    if outside:
        sign = "≠" if len(others) == 1 else "not in"
        return condition, f"{sign} {_named(others)}" if others else "not NULL"
    return condition, ("= " if len(chosen) == 1 else "in ") + _named(chosen)


def _named(values: list[str]) -> str:
    more = f", … ({len(values)})" if len(values) > _NAMED else ""
    return ", ".join(values[:_NAMED]) + more


def _ordered(codec: OrderedCodec, mask: NDArray[np.bool_]) -> tuple[sql.Composable | None, str]:
    line, cuts = _line(codec, mask)
    pieces = [_piece(codec, *ends) for ends in _runs(line, cuts)]
    if not pieces:
        return None, ""
    joined = sql.SQL(" OR ").join(condition for condition, _ in pieces)
    return build("({})", joined), " or ".join(words for _, words in pieces)


def _line(codec: OrderedCodec, mask: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], list[_Cut]]:
    """Whether each cell is chosen, in PostgreSQL's order of values, and the values between cells.

    If there are no cells for values beyond the range, the first and the last cell hold these. NaN
    comes last.
    """
    domain = codec.recoding.domain

    def special(name: str) -> list[bool]:
        known = name in codec.recoding.specials
        return [bool(mask[domain.special_code(name)])] if known else []

    first, last, lone = special(IS_NEG_INF), special(IS_POS_INF), special(IS_NAN)
    below, above = special(BELOW), special(ABOVE)
    cells = mask[: domain.values].tolist()
    edges = [_Cut(point=point) for point in codec.recoding.edges]
    cuts = [_Cut(text="-Infinity", after=True)] * len(first)
    cuts += edges if below else edges[1:]
    cuts = cuts if above else cuts[:-1]
    cuts += [_Cut(text="Infinity")] * len(last) + [_Cut(text="NaN")] * len(lone)
    return np.array([*first, *below, *cells, *above, *last, *lone]), cuts


@dataclass(frozen=True, slots=True)
class _Cut:
    """A boundary between two cells: before or after a grid point or a value off the grid."""

    point: int | None = None
    text: str = ""
    after: bool = False


def _runs(line: NDArray[np.bool_], cuts: list[_Cut]) -> Iterator[tuple[_Cut | None, _Cut | None]]:
    """Ends of the runs of true cells; None for an open end. Cut i lies behind cell i."""
    steps = np.flatnonzero(np.diff(line.astype(np.int8), prepend=0, append=0))
    for first, end in zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True):
        yield cuts[first - 1] if first else None, cuts[end - 1] if end < len(line) else None


def _piece(codec: OrderedCodec, low: _Cut | None, high: _Cut | None) -> tuple[sql.Composable, str]:
    name, kind = sql.Identifier(codec.column), sql.SQL(codec.type.sql)
    tests = [
        sql.SQL("{} " + signs[cut.after] + " {}::{}").format(name, _text(codec, cut), kind)
        for signs, cut in (((">=", ">"), low), (("<", "<="), high))
        if cut is not None
    ]
    if not tests:
        return sql.SQL("{} IS NOT NULL").format(name), "not NULL"
    return sql.SQL("({})").format(sql.SQL(" AND ").join(tests)), _words(codec, low, high)


def _words(codec: OrderedCodec, low: _Cut | None, high: _Cut | None) -> str:
    shown = [_text(codec, cut).removesuffix(" 00:00:00") if cut else "" for cut in (low, high)]
    if low is None or high is None:
        return f"≥ {shown[0]}" if low else f"< {shown[1]}"
    if low.point is not None and high.point is not None:
        if codec.type.base in (*_INTEGERS, *_FLOATS) and codec.scale.holds_one_value(
            low.point, high.point
        ):
            return f"= {shown[0]}"
        if codec.type.base in _INTEGERS:
            return f"{low.point} – {high.point - 1}"
    return f"{shown[0]} to < {shown[1]}"


def _text(codec: OrderedCodec, cut: _Cut) -> str:
    scale = scale_of(codec.type)
    if cut.point is None or scale is None:
        return cut.text
    values = pa.table({"edge": scale.build(np.array([cut.point], dtype=np.int64), {})})
    return b"".join(csv_blocks([values], 1)).decode().strip().strip('"')
