"""Counting in the engine: marginals as one GROUP BY over the rows of the fit's snapshot.

The engine is told public things alone: names, released edges and labels. What it answers are exact
counts, which go to `Session` as those of any other counter do. All numbers are whole: weights are
computed by integer division, their sums are numeric (PostgreSQL) or HUGEINT (DuckDB).

Weights follow from n, the number of a unit's rows in the table, by one window over the table's
units before anything is grouped: the same ⌊S·min(n, τ)/(τ·n)⌋ as `units.row_weights`. Random ranks
are the session's: no engine draws one. A table under truncation, whose weights are ranks, is
counted by the codes in this process, and so is whatever SQL does not express: regions, fan-outs,
contributions, references into a row's own unit, and columns that `pushdown` leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from privbench.encoding.pushdown import MOST_ARMS, divided, expression, pushed, steps_of
from privbench.pipeline.prepare import FitPlan
from privbench.postgres.keys import key_expressions
from privbench.privacy import GRID, KeySpec
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.queries import Axis, Column, Owner, Refers, Whole
from privbench.privacy.queries.counting import Local, Marginals
from privbench.privacy.query import Integers
from privbench.privacy.units import bound

#: Runs a statement and gives its rows.
Run = Callable[[str], Iterable[Sequence[Any]]]


#: A code in the rows, and what becomes of it once it has a name.
Code = tuple[exp.Expression, Callable[[exp.Expression], exp.Expression]]


#: Positions of the axes of every histogram.
Sets = tuple[tuple[int, ...], ...]


class _Local(Exception):
    """An axis that this process counts."""


class EngineCounter:
    """A `Counter` that has an engine count one private database's marginals.

    Args:
        plan: How the columns of the database are read.
        data: The database; of others, as neighbours are, the codes are counted.
        run: Runs a statement on the rows that the database was read from.
        dialect: The engine's SQL, by sqlglot's name.
    """

    def __init__(
        self, plan: FitPlan, data: PrivateDatabase, run: Run, dialect: str = "postgres"
    ) -> None:
        self._plan, self._data, self._run, self._dialect = plan, data, run, dialect

    def count(self, data: PrivateDatabase, asked: Marginals) -> list[Integers]:
        """See `Counter`.

        Raises:
            DatabaseError: The engine refused.
        """
        there: Sets = ()
        if self._data.same_rows(data):
            there, statement = self.statement(data, asked)
        here = tuple(chosen for chosen in asked.sets if chosen not in there)
        # Axes that read what is not kept are read only for what is counted here.
        local = Local().count(data, replace(asked, sets=here)) if here else []
        counted = dict(zip(here, local, strict=True))
        for chosen, shape in zip(asked.sets, asked.shapes, strict=True):
            counted.setdefault(chosen, np.zeros(shape, dtype=np.int64))
        for *codes, weight in self._run(statement) if there else ():
            # A grouping leaves the axes that are not its own NULL; no code is.
            known = {k for k, code in enumerate(codes) if code is not None}
            for chosen in there:
                if known == set(chosen):
                    counted[chosen][tuple(int(codes[k]) for k in chosen)] = int(weight)
        return [counted[chosen] for chosen in asked.sets]

    def statement(self, data: PrivateDatabase, asked: Marginals) -> tuple[Sets, str]:
        """The sets of axes that SQL expresses, and the SQL that counts them."""
        spec = data.spec.tables[asked.table]
        ranked = spec.bound == "truncation" and spec.own is not None and asked.tau is None
        if asked.region is not None or ranked:
            return (), ""
        made = _Statement(self._plan, data, asked.table, self._dialect)
        codes: dict[int, Code] = {}
        for place, axis in enumerate(asked.axes):
            with suppress(_Local):
                codes[place] = made.code(axis)
        there = tuple(chosen for chosen in asked.sets if set(chosen) <= set(codes))
        kept = [codes.get(k, (exp.null(), _same)) for k in range(len(asked.axes))]
        return there, made.grouped(kept, there, asked.tau or bound(data.spec, asked.table))


class _Statement:
    """The tables of a count: the table, its owner, the owner's owner, as t0, t1, t2."""

    def __init__(self, plan: FitPlan, data: PrivateDatabase, table: str, dialect: str) -> None:
        self._plan, self._dialect = plan, dialect
        self._recodings = {(name, part): made for name, part, made in data.recodings}
        self._chain = [table]
        self._keys: list[KeySpec] = []
        while (own := data.spec.tables[self._chain[-1]].own) is not None:
            self._keys.append(own)
            self._chain.append(own.parent)
        #: What each of them selects, by name.
        self._columns: list[dict[str, exp.Expression]] = [{} for _ in self._chain]

    def code(self, axis: Axis, level: int = 0) -> Code:
        """The code of a row of t0 on an axis of t``level``.

        Raises:
            _Local: SQL does not express it.
        """
        match axis:
            case Whole():
                return _number(0), _same
            case Column():
                return self._column(axis, level)
            case Owner() if level < len(self._keys) and axis.key == self._keys[level]:
                absent = _number(-1 - level)
                found, later = self.code(axis.axis, level + 1)
                case = exp.Case().when(self._present(level + 1).not_(), absent).else_(found)
                return (
                    case,
                    lambda code: (
                        exp.Case().when(code.eq(absent), _number(axis.axis.size)).else_(later(code))
                    ),
                )
            case Refers() if not axis.own:
                held = self._child(axis.key, level)
                missing = exp.or_(*(column.is_(exp.null()) for column in held))
                return exp.Case().when(missing, _number(0)).else_(_number(1)), _same
        raise _Local

    def _column(self, axis: Column, level: int) -> Code:
        table = self._chain[level]
        readers = self._plan.tables[table].readers.values()
        recoding = self._recodings.get((table, axis.attribute))
        made = (pushed(r, axis.attribute, recoding, self._dialect) for r in readers)
        found = next((item for item in made if item), None)
        if found is None:
            raise _Local
        code = found.code(self._take(level, found.value))
        if axis.bins is None:
            return code, _same
        bins = axis.bins.values.tolist()
        cuts = [k for k in range(1, len(bins)) if bins[k] != bins[k - 1]]
        if len(cuts) > MOST_ARMS:
            raise _Local
        return code, lambda code: steps_of(code, cuts, [bins[0], *(bins[cut] for cut in cuts)])

    def _take(self, level: int, value: exp.Expression) -> exp.Expression:
        """An expression over the columns of one of the tables, by a name that the others see."""
        columns = self._columns[level]
        name = next((known for known, other in columns.items() if other == value), None)
        name = name or f"x{len(columns)}"
        columns[name] = value
        return exp.column(name, table=f"t{level}")

    def _child(self, key: KeySpec, level: int) -> list[exp.Expression]:
        return [self._take(level, expression(text)) for text in self._both(key)[0]]

    def _parent(self, key: KeySpec, level: int) -> list[exp.Expression]:
        return [self._take(level, expression(text)) for text in self._both(key)[1]]

    def _both(self, key: KeySpec) -> tuple[list[Any], list[Any]]:
        keys = self._plan.tables[key.table].table.foreign_keys
        found = next(item for item in keys if item.name == key.name)
        return key_expressions(self._plan.schema, found)

    def _present(self, level: int) -> exp.Expression:
        held = self._parent(self._keys[level - 1], level)
        return exp.paren(held[0].is_(exp.null()).not_())

    def _unit(self) -> exp.Expression:
        """n: how many rows of t0 a row's unit has; its root is the last table that is there."""
        parts: list[exp.Expression] = []
        for level in range(1, len(self._chain)):
            above = self._present(level + 1) if level + 1 < len(self._chain) else exp.false()
            for held in self._parent(self._keys[level - 1], level):
                parts.append(exp.Case().when(above.not_(), held).else_(exp.null()))
        counted = exp.Window(this=exp.Count(this=exp.Star()), partition_by=parts)
        alone = self._present(1).not_()
        return exp.Case().when(alone, _number(1)).else_(counted)

    def _weight(self, tau: int) -> exp.Expression:
        if not self._keys:
            return exp.cast(_number(GRID), "bigint")
        n, most = exp.column("n"), _number(tau)
        least = exp.Least(this=n, expressions=[most])
        share = exp.Mul(this=exp.cast(_number(GRID), "bigint"), expression=least)
        return divided(exp.paren(share), exp.paren(exp.Mul(this=most, expression=n)))

    def grouped(self, codes: Sequence[Code], sets: Sets, tau: int) -> str:
        """Codes and their sums of weights, one grouping for every set of axes."""
        names = [f"c{k}" for k in range(len(codes))]
        inner = [exp.alias_(code, name) for (code, _), name in zip(codes, names, strict=True)]
        if self._keys:
            inner.append(exp.alias_(self._unit(), "n"))
        # Made before the tables are: they select what the conditions take.
        same = [self._same_key(key, level) for level, key in enumerate(self._keys)]
        rows = exp.select(*inner).from_(self._source(0))
        for level, condition in enumerate(same, 1):
            rows = rows.join(self._source(level), on=condition, join_type="left")
        later = (
            exp.alias_(made(exp.column(name)), name)
            for (_, made), name in zip(codes, names, strict=True)
        )
        weighted = exp.select(*later, exp.alias_(self._weight(tau), "w")).from_(rows.subquery("r"))
        grouped = {k for chosen in sets for k in chosen}
        answered = (name if k in grouped else exp.null() for k, name in enumerate(names))
        whole = exp.select(*answered, exp.Sum(this=exp.column("w"))).from_(weighted.subquery("s"))
        tuples = [exp.Tuple(expressions=[exp.column(names[k]) for k in some]) for some in sets]
        whole.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=tuples)]))
        tree = whole if self._dialect == "postgres" else whole.transform(_without_nan)
        return tree.sql(self._dialect)

    def _same_key(self, key: KeySpec, level: int) -> exp.Condition:
        pairs = zip(self._child(key, level), self._parent(key, level + 1), strict=True)
        return exp.and_(*(ours.eq(theirs) for ours, theirs in pairs))

    def _source(self, level: int) -> exp.Expression:
        """One of the tables: what is taken of it, under its name."""
        table = self._plan.tables[self._chain[level]].table
        name = exp.table_(table.name.name, db=table.name.schema, quoted=True)
        if self._dialect == "postgres" and table.kind != "p":
            name.set("only", True)
        columns = self._columns[level] or {"x0": exp.true()}
        taken = [exp.alias_(value.copy(), alias) for alias, value in columns.items()]
        return exp.select(*taken).from_(name).subquery(f"t{level}")


def _number(value: int) -> exp.Expression:
    return exp.Literal.number(value)


def _same(code: exp.Expression) -> exp.Expression:
    return code


def _without_nan(node: exp.Expression) -> exp.Expression:
    """Numbers of other engines have no NaN, and cannot be compared with its name."""
    if isinstance(node, exp.EQ) and node.expression == exp.Literal.string("NaN"):
        return exp.false()
    return node
