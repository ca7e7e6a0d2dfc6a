"""The model that a fit releases: the distributions of every table and of every reference."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privbench.errors import ModelError
from privbench.learning.graphical.columns import HIDDEN, degree_name, scope_name
from privbench.learning.graphical.model import TableLaw, sample
from privbench.learning.graphical.references import ReferenceLaw
from privbench.learning.graphical.sets import SetLaw
from privbench.learning.graphical.sizes import MANY, ONE
from privbench.learning.graphical.table_model import ROUNDED, AttributeModel, TableModel
from privbench.learning.synthetic import SyntheticTable
from privbench.privacy import KeySpec

#: What shares of 16 bits are multiplied by, so that those down to 2⁻³⁹ are above 0.
_UNIT = 2.0**15


@dataclass(frozen=True)
class DatabaseModel:
    """The fitted model of a database."""

    synthesizer: str  # name of the synthesizer that made it
    laws: dict[str, TableLaw]  # released law of every table, owners first
    # Released law of every reference between private tables, by table and key.
    references: dict[tuple[str, str], ReferenceLaw]
    public_rows: dict[str, int]  # exact row counts of the public tables that keys point to

    @cached_property
    def units(self) -> Mapping[str, float]:
        """Return for every table the most units that are expected to have rows in it."""
        units: dict[str, float] = {}
        for name, law in self.laws.items():
            units[name] = law.rows
            if law.own is not None:
                parent = self.laws[law.own.parent]
                at = list(parent.columns).index(degree_name(law.own))
                shares = next(f.shares for f in parent.model.factors if f.column == at)
                having = (parent.rows + parent.free) * float(shares[1:].sum())
                units[name] = min(units[law.own.parent], having, law.rows) + law.free
        return units

    def sample(self, scale: float = 1.0, seed: int | None = None) -> dict[str, SyntheticTable]:
        """Draw a synthetic database; see `privbench.learning.graphical.model.sample`."""
        return sample(self.laws, self.references, self.public_rows, scale, seed)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the model as a JSON object and arrays, which `from_state` reads."""
        arrays: dict[str, NDArray[Any]] = {}
        tables, references = [], []
        for index, (name, law) in enumerate(self.laws.items()):
            model, parts = law.model.to_state()
            parts |= {f"sets/{column}": one.presences for column, one in law.sets.items()}
            store(arrays, parts, "table", index)
            state = {
                "name": name,
                "rows": law.rows,
                "free": law.free,
                "lost": law.lost,
                "follows": law.follows,
                "serial": law.serial,
                "sets": [(at, one.power, one.public, one.scope) for at, one in law.sets.items()],
                "columns": list(law.columns),
                "cells": list(law.columns.values()),
                "keys": [
                    {
                        part: getattr(key, part)
                        for part in ("name", "parent", "role", "nullable", "unique", "loose")
                        if part != "loose" or key.loose
                    }
                    for key in law.keys
                ],
                **model,
            }
            if law.model.attributes is not None:
                state["attributes"], parts = law.model.attributes.to_state()
                store(arrays, parts, "attributes", index)
            tables.append(state)
        for index, ((table, key), reference) in enumerate(self.references.items()):
            state, parts = reference.to_state()
            store(arrays, parts, "reference", index)
            references.append({"table": table, "key": key, **state})
        header = {
            "synthesizer": self.synthesizer,
            "public_rows": dict(self.public_rows),
            "tables": tables,
            "references": references,
        }
        return header, {
            name: array if name.startswith("attributes") else narrow(array)
            for name, array in arrays.items()
        }

    @classmethod
    def from_state(
        cls,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        read: Callable[[Any, Mapping[str, NDArray[Any]]], AttributeModel],
    ) -> Self:
        """Return the model that `to_state` wrote; ``read`` reads the models of attributes."""
        laws: dict[str, TableLaw] = {}
        references: dict[tuple[str, str], ReferenceLaw] = {}
        with damaged():
            arrays = {
                name: array if name.startswith("attributes") else wide(array)
                for name, array in arrays.items()
            }
            for index, state in enumerate(header["tables"]):
                laws[str(state["name"])] = _law(state, index, arrays, read)
            for index, state in enumerate(header["references"]):
                law = ReferenceLaw.from_state(state, load(arrays, "reference", index))
                references[str(state["table"]), str(state["key"])] = law
            public = {str(name): int(rows) for name, rows in header["public_rows"].items()}
            synthesizer = str(header["synthesizer"])
            _check(laws, references, public)
        return cls(synthesizer, laws, references, public)


def _law(
    state: Mapping[str, Any],
    index: int,
    arrays: Mapping[str, NDArray[Any]],
    read: Callable[[Any, Mapping[str, NDArray[Any]]], AttributeModel],
) -> TableLaw:
    rows, free, lost = (float(state.get(part, 0.0)) for part in ("rows", "free", "lost"))
    names = [str(name) for name in state["columns"]]
    columns = dict(zip(names, (int(count) for count in state["cells"]), strict=True))
    keys = []
    for key in state["keys"]:
        if key["role"] not in ("own", "ref", "public"):
            raise ModelError("a key in the model is damaged.")
        flags = bool(key["nullable"]), bool(key["unique"]), bool(key.get("loose"))
        keys.append(
            KeySpec(str(key["name"]), str(state["name"]), str(key["parent"]), key["role"], *flags)
        )
    if not (0 <= rows < 2**53 and 0 <= lost <= free < 2**53) or len(columns) != len(names):
        raise ModelError("a table's size or columns in the model are damaged.")
    attributes = None
    if "attributes" in state:
        attributes = read(state["attributes"], load(arrays, "attributes", index))
    visible = [name for name in names if not name.startswith(HIDDEN)]
    if attributes is not None:
        sizes = [(name, domain.size) for name, domain in attributes.domains.items()]
        if [*attributes.domains] != visible or sizes != [*columns.items()][: len(visible)]:
            raise ModelError("the attributes in the model do not fit their table.")
    parts = load(arrays, "table", index)
    model = TableModel.from_state(state, parts, len(names), attributes)
    follows, serial = bool(state.get("follows")), int(state.get("serial", 0))
    sets = {
        name: SetLaw(float(power), parts[f"sets/{name}"], *map(int, owners))
        for name, power, *owners in state.get("sets", ())
    }
    return TableLaw(rows, free, columns, tuple(keys), model, lost, follows, serial, sets)


def _check(
    laws: Mapping[str, TableLaw],
    references: Mapping[tuple[str, str], ReferenceLaw],
    public_rows: Mapping[str, int],
) -> None:
    """Refuse parts that do not fit each other; owners stand before what they own."""
    above: dict[str, list[int]] = {}
    for name, law in laws.items():
        context: list[int] = []
        if law.own is not None:
            if law.own.parent not in above:
                raise ModelError("an owner in the model is missing, or comes late.", table=name)
            parent, buckets = laws[law.own.parent], ONE if law.own.unique else MANY
            context = [cells + 1 for cells in (*parent.columns.values(), *above[law.own.parent])]
            _require(parent.columns.get(degree_name(law.own)) == buckets.size, name)
        above[name] = context
        law.model.check([*law.columns.values(), *context])
        for column, one in law.sets.items():
            sets, places = one.presences, [factor.column for factor in law.model.factors]
            fits = sets.ndim == 2 and sets.shape[0] == sets.shape[1] <= law.columns.get(column, 0)
            after = places.index([*law.columns].index(column))
            fits &= law.own is not None or one.scope in places[:after]
            _require(fits and sets.dtype == float, name)
        _require(sum(key.role == "own" for key in law.keys) <= 1, name)
        for key in law.keys:
            scope = law.columns.get(scope_name(key.name))
            if key.role == "public":
                _require(scope == public_rows.get(key.parent, 0) + 1, name)
            elif key.role == "ref":
                _require(scope in (2, 3) and key.parent in laws, name)
                _require((name, key.name) in references, name)
                references[name, key.name].check(laws[key.parent].columns, law.columns)


def _require(condition: bool, table: str) -> None:
    if not condition:
        raise ModelError("the parts of the model do not fit each other.", table=table)


@contextmanager
def damaged() -> Iterator[None]:
    """Turn the errors of reading a damaged header into a `ModelError`, within this context."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise ModelError("the model's header is damaged.") from error


def store(
    arrays: dict[str, NDArray[Any]], parts: Mapping[str, NDArray[Any]], *place: str | int
) -> None:
    """Add ``parts`` to ``arrays``, under names that begin with ``place``, a table or reference."""
    arrays.update({"/".join(map(str, (*place, name))): array for name, array in parts.items()})


def load(arrays: Mapping[str, NDArray[Any]], *place: str | int) -> dict[str, NDArray[Any]]:
    """Return the arrays that `store` added under ``place``."""
    prefix = "/".join(map(str, (*place, "")))
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array for a model file: floats have 32 bits, those of distributions 16."""
    if array.dtype != np.float64:
        return array
    distributions = array.ndim == 2 and len(array) > 1 and (array >= 0).all()
    if distributions and (np.abs(array.sum(axis=1) - 1.0) < ROUNDED).all():
        return (array * _UNIT).astype(np.float16)
    return array.astype(np.float32)


def wide(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a model file with floats of 64 bits."""
    if array.dtype == np.float16:
        return array.astype(np.float64) / _UNIT
    return array.astype(np.float64) if array.dtype == np.float32 else array
