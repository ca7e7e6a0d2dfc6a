"""Synthetic rows of a model as PostgreSQL prints them, for literals that may be published."""

from __future__ import annotations

from privbench.pipeline.decode import CloneTable, decode
from privbench.pipeline.model import Model
from privbench.postgres.csvtext import texts
from privbench.rng import generator
from privbench.schema import Table
from privbench.workload.generators.values import Row

_ROWS = 2000


class ModelRows:
    """Rows drawn from a model; needs no source.

    Args:
        model: The model.
        seed: Of the draws.

    Raises:
        ModelError: The model is damaged.
    """

    def __init__(self, model: Model, seed: int) -> None:
        self._tables = {item.table.key: item for item in decode(model, seed=seed)}
        self._seed = seed
        self._starts: dict[str, list[Row]] = {}

    def starts(self, table: Table) -> list[Row]:
        """Some rows of a table; columns that a clone fills by itself are NULL in them."""
        if table.key not in self._starts:
            self._starts[table.key] = self._drawn(self._tables[table.key])
        return self._starts[table.key]

    def _drawn(self, item: CloneTable) -> list[Row]:
        batch = next(item.batches(), None) if item.columns else None
        if batch is None:
            return []
        rng = generator(self._seed, "model rows", item.table.key)
        chosen = rng.permutation(batch.num_rows)[:_ROWS]
        columns = dict(zip(item.columns, texts(batch.take(chosen)), strict=True))
        blank: Row = {column.name: None for column in item.table.columns}
        return [
            blank | dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        ]
