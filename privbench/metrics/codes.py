"""Columns of both tables as common small codes: code 0 is NULL, then the values in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privbench.metrics import canon
from privbench.metrics.columns import CellPlan
from privbench.metrics.kld import Coded

_Codes = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """One compared column.

    Attributes:
        plan: How its values became cells.
        labels: What code 1, 2, … stands for.
        coded: The codes of both tables.
    """

    plan: CellPlan
    labels: tuple[str, ...]
    coded: Coded

    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the source and of the clone in each code, each of shape (size,)."""
        size = self.coded.size
        return (
            np.bincount(self.coded.real, minlength=size),
            np.bincount(self.coded.clone, minlength=size),
        )


class Encoder:
    """Codes batches of one column of text as they arrive, numbering new values."""

    def __init__(self) -> None:
        self.values: pa.Array = pa.array([], pa.string())

    def encode(self, column: pa.Array) -> _Codes:
        """Codes of a batch, shape (rows,): 0 for NULL, else 1 + the value's number."""
        column = column.cast(pa.string())
        fresh = pc.unique(column).drop_null()
        fresh = fresh.filter(pc.invert(pc.is_in(fresh, value_set=self.values)))
        if len(fresh):
            self.values = pa.concat_arrays([self.values, fresh])
        numbers = pc.index_in(column, value_set=self.values)
        codes = pc.add(pc.fill_null(numbers, -1), 1)
        return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.uint32)


def encode(
    plans: Sequence[CellPlan],
    real: Iterable[pa.RecordBatch],
    clone: Iterable[pa.RecordBatch],
) -> list[CodedColumn]:
    """Code two streams of the plans' expressions.

    Args:
        plans: The columns, in the order of the batches' columns.
        real: Batches of the source.
        clone: Batches of the clone.

    Returns:
        A coded column for each plan. Only codes are held, in the narrowest type.
    """
    encoders = [Encoder() for _ in plans]
    sides = [_codes(plans, encoders, batches) for batches in (real, clone)]
    return [
        _column(plan, encoder, sides[0][i], sides[1][i])
        for i, (plan, encoder) in enumerate(zip(plans, encoders, strict=True))
    ]


def _codes(
    plans: Sequence[CellPlan], encoders: Sequence[Encoder], batches: Iterable[pa.RecordBatch]
) -> list[_Codes]:
    parts: list[list[_Codes]] = [[np.zeros(0, dtype=np.uint32)] for _ in plans]
    for batch in batches:
        for i, plan in enumerate(plans):
            column = batch.column(i)
            parts[i].append(_bins(column) if plan.edges else encoders[i].encode(column))
    return [np.concatenate(part) for part in parts]


def _bins(column: pa.Array) -> _Codes:
    numbers = pc.fill_null(pc.add(column.cast(pa.int64()), 1), 0)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.uint32)


def _column(plan: CellPlan, encoder: Encoder, real: _Codes, clone: _Codes) -> CodedColumn:
    if plan.edges:
        labels = plan.bin_labels
    else:
        texts = [str(text) for text in encoder.values.to_pylist()]
        order = sorted(range(len(texts)), key=lambda i: _place(plan, texts[i]))
        labels = tuple(texts[i] for i in order)
        places = np.zeros(len(texts) + 1, dtype=np.uint32)
        places[np.array(order, dtype=np.intp) + 1] = np.arange(1, len(texts) + 1)
        real, clone = places[real], places[clone]
    size = len(labels) + 1
    narrow = np.min_scalar_type(size)
    return CodedColumn(plan, labels, Coded(real.astype(narrow), clone.astype(narrow), size))


def _place(plan: CellPlan, text: str) -> tuple[float, str]:
    """Where a value stands among its column's."""
    labels = plan.column.type.labels
    if text in labels:
        return float(labels.index(text)), ""
    if canon.order_type(plan.column) in ("numeric", "float8"):
        return float(text), ""
    return 0.0, text
