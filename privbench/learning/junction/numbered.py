"""The variables of a table's law by number: given ones first, then those that are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privbench.learning.denoise import Floats
from privbench.learning.junction.context import Context, Variable
from privbench.learning.junction.implied import Ints, blocks_of
from privbench.learning.junction.structure import Pair
from privbench.privacy.queries import Axis


@dataclass(frozen=True, slots=True)
class Numbered:
    """Variables of both kinds; all lists are by number.

    Attributes:
        context: What is given.
        variables: What is drawn.
    """

    context: Context
    variables: Sequence[Variable]

    @property
    def fixed(self) -> int:
        """How many variables are given; they have the first numbers."""
        return len(self.context.columns)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What stands for each in queries."""
        return (*self.context.axes, *(item.axis for item in self.variables))

    @property
    def sizes(self) -> list[int]:
        """Numbers of bins."""
        own = [item.bins.size for item in self.variables]
        return [*(column.size for column in self.context.columns), *own]

    @property
    def classes(self) -> list[int]:
        """Given variables first, then those that others are conditioned on."""
        return [0] * self.fixed + [1 if item.early else 2 for item in self.variables]

    @property
    def shares(self) -> list[Floats]:
        """Shares of rows by bin."""
        own = [item.bins.counts / item.bins.counts.sum() for item in self.variables]
        given = self.context.given
        return [*(given.table((name,)) for name in range(given.count)), *own] if given else own

    def pairs(self) -> list[Pair]:
        """All pairs but those of two given variables."""
        count = len(self.sizes)
        return [(i, j) for i in range(count) for j in range(max(i + 1, self.fixed), count)]

    def ordered(self, pair: Pair) -> tuple[int, int]:
        """How many leading bins of both variables follow an order."""
        own = [item.ordered for item in self.variables]
        every = [*self.context.ordered, *own]
        return every[pair[0]], every[pair[1]]

    def blocks(self, pair: Pair) -> tuple[Ints, Ints]:
        """Blocks of the bins of both variables."""
        early = [*self.context.early, *(item.early for item in self.variables)]
        sizes, ordered = self.sizes, self.ordered(pair)
        one, two = (
            blocks_of(sizes[name], count, early=early[name])
            for name, count in zip(pair, ordered, strict=True)
        )
        return one, two
