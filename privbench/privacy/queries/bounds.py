"""Bounds of ordered attributes whose domain is not settled (P20)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privbench.errors import SchemaError
from privbench.privacy.data import NEG_INF, POS_INF, Grid, PrivateDatabase
from privbench.privacy.queries.claims import up
from privbench.privacy.queries.counting import add
from privbench.privacy.queries.public import PublicArray
from privbench.privacy.query import GRID, Integers, Query, Sensitivity
from privbench.privacy.spec import DatabaseSpec
from privbench.privacy.units import contribution

_BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class Quantile(Query):
    """Utility of public grid points as the q-quantile of an attribute, q = q_num/q_den.

    Statistic: for every candidate t, −⌊|q_den·A(t) − q_num·N| / q_den⌋ with A(t) the weight of the
    rows whose value is below t and N that of all rows with a finite value. NULL, NaN and ±∞ are in
    neither sum: they are cells of their own.

    Sensitivity: a unit adds a to A(t) and b to N − A(t), with a, b ≥ 0 and a + b ≤ C (rows without
    a finite value only make the sum smaller). So q_den·A − q_num·N moves by
    c = (q_den − q_num)·a − q_num·b, which lies in [−q_num·C, (q_den − q_num)·C]. Add/remove: at
    most max(q_num, q_den − q_num)·C; replace moves it by the difference of two such numbers, at
    most q_den·C. Absolute values are 1-Lipschitz, and rounding down after the division by q_den
    turns a change of at most D into one of at most ⌈D/q_den⌉. So max(q, 1−q)·C in L∞, rounded up,
    and C under replace. All candidates may move: m times that in L1, √m times in L2.
    Source: P20 (which states max(q, 1−q)).

    Attributes:
        source: The table.
        attribute: An attribute that is still a `Grid`.
        candidates: Ascending public grid points.
        q_num: Numerator of q.
        q_den: Denominator of q.
    """

    source: str
    attribute: str
    candidates: PublicArray
    q_num: int
    q_den: int
    kind = "quantile"
    #: The stability harness evaluates it before any recoding.
    reads_raw = True
    unit = GRID

    def __post_init__(self) -> None:
        points = self.candidates.values
        if points.ndim != 1 or points.size == 0 or bool((np.diff(points) <= 0).any()):
            raise SchemaError("candidates ascend.", table=self.source, column=self.attribute)
        if int(points[0]) <= NEG_INF:
            raise SchemaError("candidates lie above the sentinels.", column=self.attribute)
        if not 0 <= self.q_num <= self.q_den <= 10**6 or self.q_den < 1:
            raise SchemaError("q is a fraction in [0, 1].", column=self.attribute)

    @classmethod
    def of(
        cls, table: str, attribute: str, candidates: Sequence[int] | NDArray[np.int64], q: float
    ) -> Quantile:
        """A query for a quantile given as a number; q is taken to the nearest 1/1000 or so."""
        share = Fraction(q).limit_denominator(1000)
        return cls(table, attribute, PublicArray(candidates), share.numerator, share.denominator)

    @property
    def table(self) -> str:
        """See `Query.table`."""
        return self.source

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Query.columns`."""
        return (self.attribute,)

    @property
    def shape(self) -> tuple[int, ...]:
        """One utility for each candidate."""
        return self.candidates.shape

    def sensitivity(self, spec: DatabaseSpec) -> Sensitivity:
        """See the class's docstring."""
        total, count = contribution(spec, self.source), self.candidates.values.size
        moved = max(self.q_num, self.q_den - self.q_num) * total
        if spec.relation.neighbours == "replace":
            moved = self.q_den * total
        each = -(-moved // self.q_den)
        return Sensitivity(each * count, up(each * math.sqrt(count)), each)

    def evaluate(self, data: PrivateDatabase) -> Integers:
        """Utilities in grid units."""
        gaps = self._gaps(data)
        below, total = np.cumsum(gaps)[:-1], int(gaps.sum())
        # Python integers: q_den times the weight of all rows may pass 2⁶³.
        off = (abs(self.q_den * int(part) - self.q_num * total) for part in below)
        return np.array([-(part // self.q_den) for part in off], dtype=np.int64)

    def _gaps(self, data: PrivateDatabase) -> Integers:
        """Weight of the finite values below, between and above the candidates."""
        held = data._raw(self.source, self.attribute)
        if not isinstance(held, Grid):
            raise SchemaError(
                "its domain is settled already.", table=self.source, column=self.attribute
            )
        points, weights = self.candidates.values, data._units.weights(self.source)
        gaps = np.zeros(points.size + 1, dtype=np.int64)
        for start in range(0, len(held), _BLOCK):
            block = slice(start, start + _BLOCK)
            values = held._values[block]
            finite = (values > NEG_INF) & (values < POS_INF)
            index = np.searchsorted(points, values[finite], side="right")
            add(gaps, index, weights[block][finite])
        return gaps
