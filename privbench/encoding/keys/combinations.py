"""Repair of rows whose combination of values and NULLs breaks a rule."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Mask
from privbench.encoding.keys.references import NONE, TableRows, known
from privbench.privacy.units import RowIndex
from privbench.rules.facts import movable_keys
from privbench.schema import Rule

#: Rounds in which shares of combinations are fitted.
_FITTED = 50


def keep_combinations(work: TableRows) -> None:
    """Give every row of a synthetic table a combination of values that the rules allow."""
    for rule in work.table.rules:
        labels = [work.table.column(n).type for n in rule.columns if n not in rule.nulls]
        drawn = {*rule.columns} <= work.columns.keys()
        if rule.kind == "combination" and drawn and all(t.category in "BES" for t in labels):
            _keep(work, rule)


def _keep(work: TableRows, rule: Rule) -> None:
    names, both = rule.columns, 0 < len(rule.nulls) < len(rule.columns)
    values = [sorted({*column}) for column in zip(*rule.rows, strict=True)]
    allowed = np.array([[v.index(x) for v, x in zip(values, r, strict=True)] for r in rule.rows])
    cells = np.column_stack([_cells(work, rule, n, v) for n, v in zip(names, values, strict=True)])
    if both:
        # A row with a label that the rule does not name has the NULLs of one that it names.
        others = np.concatenate([np.full((len(allowed), 1), -1), allowed[:, 1:]], axis=1)
        allowed = np.unique(np.concatenate([allowed, others]), axis=0)
    rows = np.flatnonzero((cells[:, 0] >= 0) | bool(rule.nulls))
    # What keys have filled stays, but for references that a label decides; and the first column,
    # unless all are flags or another one stays.
    keys = {key.columns[0]: key.name for key in movable_keys(work.table) if key.name != work.own}
    tied = work.fixed - (keys.keys() if both or work.fixed.issuperset(names) else set())
    stays = np.array([name in tied for name in names])
    plain = bool(rule.nulls) or work.table.column(names[0]).type.base != "bool"
    stays[0] |= plain and (both or not stays.any())
    numbers, every = _number(cells[rows]), _number(allowed)
    good = np.isin(numbers, every)
    shares = _raked(allowed, cells[rows])
    had = np.array([np.count_nonzero(numbers == number) for number in every])
    wanted = np.maximum(shares * len(rows) - had, 0) + shares * 1e-6 + 1e-12
    kinds, options = _number(cells[rows] * stays), _number(allowed * stays)
    made = cells.copy()
    for kind in np.unique(kinds[~good]):
        some, bad = np.flatnonzero(options == kind), rows[(kinds == kind) & ~good]
        if len(some):
            odds = wanted[some] / wanted[some].sum()
            made[bad] = allowed[work.rng.choice(some, len(bad), p=odds)]
    for name, texts, old, new in zip(names, values, cells.T, made.T, strict=True):
        places = _relabel(work, name, np.array(texts)[new], old != new, null=name in rule.nulls)
        if places is not None and (key := keys.get(name)) in work.parents:
            work.parents[key] = np.where(places < 0, NONE, work.parents[key][places])


def _cells(work: TableRows, rule: Rule, name: str, values: list[str]) -> RowIndex:
    """The place of every row's value in the rule, −1 for another."""
    column = work.columns[name]
    texts = column.is_null() if name in rule.nulls else column
    positions = pc.index_in(texts.cast(pa.string()), value_set=pa.array(values)).fill_null(-1)
    return np.asarray(positions, np.int64)


def _number(cells: RowIndex) -> RowIndex:
    """A number for every combination."""
    return np.asarray((cells + 1) @ (1 << np.arange(cells.shape[1]) * (62 // cells.shape[1])))


def _raked(allowed: RowIndex, cells: RowIndex) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Shares of combinations that fit those of columns."""
    shares = np.full(len(allowed), 1 / len(allowed))
    for _ in range(_FITTED):
        for column, rows in zip(allowed.T + 1, cells.T + 1, strict=True):
            margin = np.bincount(rows, minlength=column.max() + 1) + 1e-9
            now = np.bincount(column, shares, minlength=len(margin))
            shares *= (margin / np.maximum(now, 1e-300))[column]
        shares /= shares.sum()
    return shares


def _relabel(work: TableRows, name: str, new: Any, changed: Mask, *, null: bool) -> RowIndex | None:
    """Change a column where ``changed``: write the labels of ``new``.

    If ``null``, write NULL where ``new`` is 'true', else a random row's value, if any row has one;
    and return the row that each row's value is from.
    """
    old = work.columns[name]
    labelled = np.flatnonzero(known(old)) if null else changed
    if not null:
        labels = pa.array(new).cast(old.type)
        work.columns[name] = pc.if_else(pa.array(changed), labels, old)
    elif labelled.size:
        places = np.arange(work.rows)
        places[changed] = work.rng.choice(labelled, np.count_nonzero(changed))
        places[changed & (new == "true")] = NONE
        work.columns[name] = old.take(pa.array(places, mask=places < 0))
        return places
    return None
