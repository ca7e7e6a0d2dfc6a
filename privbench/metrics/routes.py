"""Codes of a model's column as a condition on the column's values, in SQL and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from psycopg import sql

from privbench.encoding import Codec
from privbench.encoding.categories import ListCodec
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.scale import scale_of
from privbench.postgres.csvtext import csv_blocks
from privbench.privacy.recoding import ABOVE, BELOW

#: Values of a list that are named.
_NAMED = 3
_INTEGERS = ("int2", "int4", "int8")


@dataclass(frozen=True, slots=True)
class Route:
    """A condition that every row meets or not; it is never NULL.

    Attributes:
        condition: As SQL, with the bare column name.
        words: For people.
    """

    condition: sql.Composable
    words: str


def drawable(codec: Codec) -> bool:
    """Whether sets of a column's codes can be told as conditions on its values.

    Lists can, and grids without codes for NaN and the infinities.
    """
    if isinstance(codec, OrderedCodec):
        return set(codec.recoding.specials) <= {BELOW, ABOVE}
    return isinstance(codec, ListCodec)


def route_of(codec: Codec, mask: NDArray[np.bool_]) -> Route:
    """The condition that a value has one of some codes.

    Args:
        codec: One that is `drawable`.
        mask: Which codes, shape (domain size,); at least one.
    """
    null = codec.domains[codec.column].null_code
    nulls = null is not None and bool(mask[null])
    if isinstance(codec, ListCodec):
        condition, words = _listed(codec, mask)
    else:
        assert isinstance(codec, OrderedCodec)
        condition, words = _ordered(codec, mask)
    name = sql.Identifier(codec.column)
    if condition is None:
        return Route(sql.SQL("{} IS NULL").format(name), f"{codec.column} is NULL")
    # NULL comes to the node that its code comes to.
    found = sql.SQL("coalesce({}, {})").format(condition, sql.Literal(nulls))
    return Route(found, f"{codec.column} {words}{' or NULL' if nulls else ''}")


def _listed(codec: ListCodec, mask: NDArray[np.bool_]) -> tuple[sql.Composable | None, str]:
    domain = codec.domains[codec.column]
    chosen = [value for value, kept in zip(codec.values, mask, strict=False) if kept]
    others = [value for value, kept in zip(codec.values, mask, strict=False) if not kept]
    outside = codec.other and bool(mask[domain.special_code("other")])
    if not chosen and not outside:
        return None, ""
    values = others if outside else chosen
    form = "NOT ({} = ANY({}::{}[]))" if outside else "{} = ANY({}::{}[])"
    condition = sql.SQL(form).format(
        sql.Identifier(codec.column), sql.Literal(values), sql.SQL(codec.type.sql)
    )
    if outside:
        return condition, f"not {_named(others)}" if others else "any value"
    return condition, ("= " if len(chosen) == 1 else "in ") + _named(chosen)


def _named(values: list[str]) -> str:
    more = f", … ({len(values)})" if len(values) > _NAMED else ""
    return ", ".join(values[:_NAMED]) + more


def _ordered(codec: OrderedCodec, mask: NDArray[np.bool_]) -> tuple[sql.Composable | None, str]:
    domain, edges = codec.recoding.domain, codec.recoding.edges
    below, above = (name in codec.recoding.specials for name in (BELOW, ABOVE))
    cells = mask[: domain.values]
    lower = [mask[domain.special_code(BELOW)]] if below else []
    upper = [mask[domain.special_code(ABOVE)]] if above else []
    line = np.array([*lower, *cells, *upper])
    # Without such cells, the first and the last one take what lies beyond.
    cuts = list(edges) if below else list(edges[1:])
    cuts = cuts if above else cuts[:-1]
    pieces = [_piece(codec, *ends) for ends in _runs(line, cuts)]
    if not pieces:
        return None, ""
    joined = sql.SQL(" OR ").join(condition for condition, _ in pieces)
    return sql.SQL("({})").format(joined), " or ".join(words for _, words in pieces)


def _runs(line: NDArray[np.bool_], cuts: list[int]) -> Iterator[tuple[int | None, int | None]]:
    """Ends of the runs of true cells; None for an open end. Cut i lies behind cell i."""
    steps = np.flatnonzero(np.diff(line.astype(np.int8), prepend=0, append=0))
    for first, end in zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True):
        yield cuts[first - 1] if first else None, cuts[end - 1] if end < len(line) else None


def _piece(codec: OrderedCodec, low: int | None, high: int | None) -> tuple[sql.Composable, str]:
    name = sql.Identifier(codec.column)
    tests, words = [], []
    for sign, edge in ((">=", low), ("<", high)):
        if edge is None:
            continue
        text = _text(codec, edge)
        form = sql.SQL("{} " + sign + " {}::{}")
        tests.append(form.format(name, sql.Literal(text), sql.SQL(codec.type.sql)))
        words.append(text)
    if not tests:
        return sql.SQL("{} IS NOT NULL").format(name), "any value"
    shown = [word.removesuffix(" 00:00:00") for word in words]
    both = sql.SQL("({})").format(sql.SQL(" AND ").join(tests))
    if low is not None and high is not None and codec.type.base in _INTEGERS:
        return both, f"= {low}" if high - low == 1 else f"{low} – {high - 1}"
    if low is None:
        return both, f"< {shown[0]}"
    return both, f"≥ {shown[0]}" if high is None else f"{shown[0]} to < {shown[1]}"


def _text(codec: OrderedCodec, point: int) -> str:
    scale = scale_of(codec.type)
    assert scale is not None
    values = pa.table({"edge": scale.build(np.array([point], dtype=np.int64), {})})
    return b"".join(csv_blocks([values], 1)).decode().strip().strip('"')
