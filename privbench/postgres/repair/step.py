"""The face of every step of a repair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection

from privbench.postgres.repair.rows import TargetTables

#: Tables of which rows were changed since they last kept the rules; None is all.
Touched = Collection[str] | None


class RepairStep(ABC):
    """One kind of rule that synthetic rows may break."""

    def __init__(self, clone: TargetTables) -> None:
        self.clone = clone
        self.find()

    @abstractmethod
    def find(self) -> None:
        """Read the rules in the target's catalog, and set aside what would refuse rows."""

    @abstractmethod
    def broken(self) -> set[str]:
        """Tables of which some rows break a rule."""

    @abstractmethod
    def repair(self, touched: Touched = None, *, last: bool = False) -> None:
        """Change rows so that they keep the rules, or delete them.

        With ``last`` those that break a rule go, as there is no later turn to change them.
        """
