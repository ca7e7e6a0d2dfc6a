"""What a model knows of a foreign key, and what variables that it draws with rows are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privbench.errors import ModelError
from privbench.learning.denoise import Floats
from privbench.learning.fanlaw import FanLaw
from privbench.learning.pulls import Pull
from privbench.privacy.spec import DatabaseSpec, KeySpec

#: Most public rows that a key model may weigh.
_MAX_TARGETS = 2**28
#: Starts the names of variables that are drawn with a row and are no columns.
HIDDEN = "\x1f"
_FANS = f"{HIDDEN}children{HIDDEN}"
#: Codes of `link_variable` for references into other units and into the row's own.
OUTSIDE, INSIDE = 1, 2


def fan_variable(table: str, key: str) -> str:
    """Name of an owner's variable: the bucket of its number of rows in ``table`` by an OWN key."""
    return f"{_FANS}{table}{HIDDEN}{key}"


def is_fan(variable: str) -> bool:
    """Whether a variable is a `fan_variable`."""
    return variable.startswith(_FANS)


def link_variable(key: str) -> str:
    """Name of a row's variable: 0 no reference, 1 into another unit, 2 into its own unit."""
    return f"{HIDDEN}link{HIDDEN}{key}"


def own_keys(spec: DatabaseSpec, table: str) -> list[KeySpec]:
    """OWN keys whose parent is a table, by the order of tables and keys."""
    every = (key for item in spec.tables.values() for key in item.keys)
    return [key for key in every if key.role == "own" and key.parent == table]


@dataclass(frozen=True, slots=True, eq=False)
class KeyModel:
    """Released facts of one foreign key.

    Attributes:
        name: Constraint name.
        parent: Referenced table.
        role: ``own``, ``ref`` or ``public``.
        nullable: Whether a row may have no parent.
        unique: Whether a parent has at most one row.
        null: For OWN keys the number of rows without an owner, else the share of rows without a
            reference.
        law: Children per owner (``own``), references per target (``ref``).
        targets: Relative frequency of every public row (``public``).
        pulls: What is known of the rows that are referred to (``ref``).
        counted: Number of references to a row up to which pulls were measured.
    """

    name: str
    parent: str
    role: Literal["own", "ref", "public"]
    nullable: bool
    unique: bool
    null: float = 0.0
    law: FanLaw | None = None
    targets: Floats | None = None
    pulls: tuple[Pull, ...] = ()
    counted: float = 0.0

    @classmethod
    def of(cls, key: KeySpec, **facts: Any) -> Self:
        """The model of a key of the spec with some facts."""
        return cls(key.name, key.parent, key.role, key.nullable, key.unique, **facts)

    @property
    def must_fit(self) -> bool:
        """Whether every row needs a parent row of its own."""
        return self.unique and not self.nullable and self.role != "own"

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON object and arrays that `from_state` reads back."""
        state = {
            "name": self.name,
            "parent": self.parent,
            "role": self.role,
            "nullable": self.nullable,
            "unique": self.unique,
            "null": self.null,
            "law": None if self.law is None else self.law.to_state(),
            "pulls": [pull.to_state() for pull in self.pulls],
            "counted": self.counted,
        }
        return state, {} if self.targets is None else {"targets": self.targets}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The key model that `to_state` wrote.

        Raises:
            ModelError: Not a key model.
        """
        try:
            law = None if state["law"] is None else FanLaw.from_state(state["law"])
            null = float(state["null"])
            names = str(state["name"]), str(state["parent"]), state["role"]
            flags = bool(state["nullable"]), bool(state["unique"])
            pulls = tuple(Pull.from_state(pull) for pull in state["pulls"])
            counted = float(state["counted"])
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError("a key in the model is damaged.") from error
        targets = arrays.get("targets")
        numbers = 0 <= null < 2**53 and 0 <= counted < 2**53
        if names[2] not in ("own", "ref", "public") or not numbers:
            raise ModelError("a key in the model is damaged.")
        if (names[2] == "public") != (targets is not None):
            raise ModelError("a key in the model is damaged.")
        if targets is not None and not _is_weights(targets):
            raise ModelError("a key in the model is damaged.")
        return cls(*names, *flags, null, law, targets, pulls, counted)


def _is_weights(array: NDArray[Any]) -> bool:
    plain = array.ndim == 1 and array.dtype == np.float64 and len(array) <= _MAX_TARGETS
    return plain and bool(np.isfinite(array).all() and (array >= 0).all())
