"""The privacy unit of a release, and when losses of two releases add up."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Self

from privbench.privacy.accountant import Guarantee
from privbench.privacy.spec import DatabaseSpec

#: No promise at all.
INFINITE = Guarantee(math.inf, 1.0)


@dataclass(frozen=True, slots=True)
class UnitDefinition:
    """Which rows go together, and which neighbours are compared.

    ``unit = "row"`` is the definition without owners; nothing else distinguishes it.
    """

    neighbours: Literal["add-remove", "replace"]
    # For every private table its OWN key as ``key→parent``, or "" for none; sorted.
    owners: tuple[tuple[str, str], ...]
    public: tuple[str, ...] = ()  # tables that the release copied verbatim; sorted

    @classmethod
    def of(cls, spec: DatabaseSpec, public: Iterable[str] = ()) -> Self:
        """The definition behind a database spec."""
        owners = [
            (name, f"{table.own.name}→{table.own.parent}" if table.own else "")
            for name, table in spec.tables.items()
        ]
        return cls(spec.relation.neighbours, tuple(sorted(owners)), tuple(sorted(public)))

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that stand for the definition."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back."""
        return {
            "neighbours": self.neighbours,
            "owners": dict(self.owners),
            "public": list(self.public),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The definition that `to_json` wrote."""
        owners = tuple(sorted((str(k), str(v)) for k, v in data["owners"].items()))
        return cls(data["neighbours"], owners, tuple(data["public"]))

    def covers(self, other: UnitDefinition) -> bool:
        """Whether a unit of ``other``, cut down to this definition's tables, is a unit here.

        True when both give every table that they share the same owner, and nothing that is private
        in ``other`` was public here. Proof: join the two forests. They agree where they meet, and
        each is closed upwards (an owner of one of its tables is one of its tables), so a unit of
        the joined forest meets this definition's tables in exactly one of its units, or in none.
        Removing the larger unit therefore removes at most one unit here, and a loss stated for
        units here holds for it.
        """
        mine, theirs = dict(self.owners), dict(other.owners)
        agree = all(mine[table] == theirs[table] for table in mine.keys() & theirs.keys())
        return agree and not theirs.keys() & set(self.public)

    def counted(self, loss: Guarantee, other: UnitDefinition) -> Guarantee:
        """A loss that was stated under this definition, converted for units of ``other``.

        The loss itself where this definition covers the other under the same neighbours. A loss
        under add/remove counts twice for replace (one unit goes, another comes; for δ the group
        bound (1 + e^ε)·δ). Everything else is infinite: a guarantee for smaller units says
        nothing of larger ones.
        """
        if not self.covers(other):
            return INFINITE
        if self.neighbours == other.neighbours:
            return loss
        if self.neighbours == "replace":
            return INFINITE
        if loss.delta == 0.0:
            return Guarantee(2.0 * loss.epsilon)
        if loss.epsilon > 700.0:
            return INFINITE
        return Guarantee(2.0 * loss.epsilon, min(1.0, (1.0 + math.exp(loss.epsilon)) * loss.delta))
