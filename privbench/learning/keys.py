"""What a model knows of a foreign key, and how rows are attached to parents by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privbench.circuit.draw import choose, uniforms
from privbench.errors import ModelError
from privbench.learning.denoise import Floats
from privbench.learning.fanout import FanLaw, Ints
from privbench.learning.synthetic import NULL
from privbench.privacy.spec import KeySpec

#: Most public rows that a key model may weigh.
_MAX_TARGETS = 2**28


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
    """

    name: str
    parent: str
    role: Literal["own", "ref", "public"]
    nullable: bool
    unique: bool
    null: float = 0.0
    law: FanLaw | None = None
    targets: Floats | None = None

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
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError("a key in the model is damaged.") from error
        targets = arrays.get("targets")
        if names[2] not in ("own", "ref", "public") or not 0 <= null < 2**53:
            raise ModelError("a key in the model is damaged.")
        if (names[2] == "public") != (targets is not None):
            raise ModelError("a key in the model is damaged.")
        if targets is not None and not _is_weights(targets):
            raise ModelError("a key in the model is damaged.")
        return cls(*names, *flags, null, law, targets)


def own_edges(key: KeyModel, owners: int, scale: float, generator: np.random.Generator) -> Ints:
    """Owner of every row of an owned table, −1 for rows without one; sorted by owner.

    Args:
        key: The OWN key.
        owners: Number of rows of the owner's table.
        scale: Factor on the number of rows without an owner.
        generator: Source of randomness.
    """
    if key.law is None:
        raise ModelError("an OWN key in the model has no fan-out law.", table=key.parent)
    counts = key.law.draw(owners, generator)
    if key.unique:
        counts = np.minimum(counts, 1)
    without = round(key.null * scale) if key.nullable else 0
    return np.concatenate([np.repeat(np.arange(owners), counts), np.full(without, NULL, np.int64)])


def attach(key: KeyModel, rows: int, targets: int, generator: np.random.Generator) -> Ints:
    """Target of every row by a REF key or a key to a public table.

    Targets are hit in proportion to a popularity that follows the fan-in law (REF), or to their
    released frequency (public); with ``unique``, each at most once.

    Args:
        key: The key.
        rows: Number of referring rows.
        targets: Number of rows of the referenced table.
        generator: Source of randomness.

    Returns:
        int64, shape (rows,); −1 is NULL.
    """
    edges = np.full(rows, NULL, np.int64)
    linked = round(rows * (1 - min(key.null, 1.0))) if key.nullable else rows
    linked = min(linked, targets) if key.unique else linked if targets else 0
    if linked == 0:
        return edges
    chosen = np.sort(generator.permutation(rows)[:linked])
    weights = _popularity(key, targets, generator)
    if key.unique:
        edges[chosen] = _distinct(weights, linked, generator)
        return edges
    one = np.zeros(linked, np.int64)
    numbers = uniforms(one, 1, generator, stratified=True)
    edges[chosen] = choose(weights, np.zeros(1, np.int64), np.array([targets]), one, numbers)
    return edges


def _popularity(key: KeyModel, targets: int, generator: np.random.Generator) -> Floats:
    weights = np.ones(targets)
    if key.targets is not None and len(key.targets) == targets:
        weights = key.targets.copy()
    elif key.law is not None:
        weights = key.law.draw(targets, generator).astype(np.float64)
    return weights if weights.sum() > 0 else np.ones(targets)


def _distinct(weights: Floats, count: int, generator: np.random.Generator) -> Ints:
    """Weighted draws without replacement (the largest of exponential races), random order."""
    with np.errstate(divide="ignore", over="ignore"):
        keys = generator.exponential(size=len(weights)) / weights
    first = np.argpartition(keys, count - 1)[:count]
    return np.asarray(generator.permutation(first), np.int64)


def _is_weights(array: NDArray[Any]) -> bool:
    plain = array.ndim == 1 and array.dtype == np.float64 and len(array) <= _MAX_TARGETS
    return plain and bool(np.isfinite(array).all() and (array >= 0).all())
