"""How close the tables of a clone are to the source's, column sets at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from privbench.config import Config
from privbench.metrics import codes
from privbench.metrics.codes import CodedColumn
from privbench.metrics.columns import plan
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

    @property
    def rows(self) -> int:
        """Rows of the source that were compared."""
        return len(self.columns[0].real) if self.columns else 0

    def measured(self) -> TableFidelity:
        """The same with its divergence, which needs neither database."""
        found = {way: divergence(self.columns, way) for way in WAYS}
        return replace(self, divergence={way: item for way, item in found.items() if item})


def fidelity(
    source: Snapshot,
    clone: Snapshot,
    table: Table,
    there: Iterable[str],
    config: Config | None = None,
    rows: tuple[int, int] = (0, 0),
) -> TableFidelity:
    """Read one table of both databases, to be compared by `TableFidelity.measured`.

    Columns that are not `there` in the clone are left out. The config may hold public bins. Where
    the rows of both tables are known, very large tables are thinned (`codes.share`).
    """
    cells, left_out = plan(source.connection, table, config, rows[0])
    present = set(there)
    for cell in cells:
        if cell.column.name not in present:
            left_out[cell.column.name] = "missing in the clone"
    cells = [cell for cell in cells if cell.column.name in present]
    shares = codes.share(rows[0], len(cells)), codes.share(rows[1], len(cells))
    wanted = [(cell.expression, cell.column.name) for cell in cells]
    columns: list[CodedColumn] = []
    if cells:
        sides = source.stream(table, wanted), clone.stream(table, wanted)
        columns = codes.encode(cells, *sides, shares)
    return TableFidelity(tuple(columns), left_out, shares)


def overall(tables: Iterable[TableFidelity], way: int) -> tuple[float, float] | None:
    """Mean KLD and TVD over all λ-way sets of the tables, or None without one.

    Tables of fewer than `FEW_ROWS` rows in the source are left out, unless all are so small.
    """
    known = [table for table in tables if way in table.divergence]
    large = [table for table in known if table.rows >= FEW_ROWS]
    found = [table.divergence[way] for table in large or known]
    sets = sum(figures.sets for figures in found)
    if sets == 0:
        return None
    return (
        sum(figures.kld * figures.sets for figures in found) / sets,
        sum(figures.tvd * figures.sets for figures in found) / sets,
    )
