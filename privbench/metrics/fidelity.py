"""How close the tables of a clone are to the source's, column sets at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from privbench.config import Config
from privbench.metrics import codes
from privbench.metrics.codes import CodedColumn
from privbench.metrics.columns import TablePlan, plan
from privbench.metrics.kld import DivergencePart, divergence
from privbench.postgres.snapshot import Snapshot
from privbench.schema import Table

#: The λ of λ-way KLD and TVD.
WAYS = (2, 3, 4)
#: Below so many rows of the source a table says nothing of how distributions are kept.
FEW_ROWS = 100


@dataclass(frozen=True, slots=True)
class TableFidelity:
    """One table's comparison."""

    columns: tuple[CodedColumn, ...]  # the compared columns, coded
    left_out: dict[str, str]  # columns that are not compared, and why
    # The share of the rows that was compared, of the source and of the clone.
    shares: tuple[float, float] = (1.0, 1.0)
    # By λ; a λ without enough columns, or without rows, is missing.
    divergence: dict[int, DivergencePart] = field(default_factory=dict)

    def measured(self, ways: Sequence[int] = WAYS) -> TableFidelity:
        """The same with its divergence, which needs neither database."""
        coded = [column.coded for column in self.columns]
        found = {way: divergence(coded, way) for way in ways}
        return replace(self, divergence={way: item for way, item in found.items() if item})


def fidelity(
    source: Snapshot,
    clone: Snapshot,
    table: Table,
    there: Iterable[str],
    config: Config | None = None,
    rows: tuple[int, int] = (0, 0),
) -> TableFidelity:
    """Read one table of both databases, to be compared.

    Args:
        source: The source.
        clone: The clone.
        table: As the source's schema states it.
        there: Columns that the clone's table has; others are left out.
        config: May hold public bins.
        rows: Rows of the source's and of the clone's table, where they are known: very large
            tables are then thinned (`codes.share`).

    Returns:
        Codes; `TableFidelity.measured` adds the figures.
    """
    chosen = plan(source.connection, table, config, rows[0])
    present = set(there)
    cells = tuple(cell for cell in chosen.cells if cell.column.name in present)
    gone = {
        cell.column.name: "missing in the clone"
        for cell in chosen.cells
        if cell.column.name not in present
    }
    shares = codes.share(rows[0], len(cells)), codes.share(rows[1], len(cells))
    columns = _read(source, clone, TablePlan(table, cells, {}), shares)
    return TableFidelity(tuple(columns), {**chosen.left_out, **gone}, shares)


def _read(
    source: Snapshot, clone: Snapshot, chosen: TablePlan, shares: tuple[float, float]
) -> list[CodedColumn]:
    if not chosen.cells:
        return []
    wanted = [(cell.expression, cell.column.name) for cell in chosen.cells]
    return codes.encode(
        chosen.cells,
        source.stream(chosen.table, wanted),
        clone.stream(chosen.table, wanted),
        shares,
    )


def overall(tables: Iterable[TableFidelity], way: int) -> tuple[float, float] | None:
    """Mean KLD and TVD over all λ-way sets of the tables, or None without one.

    Tables of fewer than `FEW_ROWS` rows in the source are left out, unless all are so small.
    """
    known = [table for table in tables if way in table.divergence]
    large = [table for table in known if len(table.columns[0].coded.real) >= FEW_ROWS]
    found = [table.divergence[way] for table in large or known]
    sets = sum(figures.sets for figures in found)
    if sets == 0:
        return None
    return (
        sum(figures.kld * figures.sets for figures in found) / sets,
        sum(figures.tvd * figures.sets for figures in found) / sets,
    )
