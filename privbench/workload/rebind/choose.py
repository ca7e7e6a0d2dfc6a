"""New literals for those that are compared with a column, from synthetic rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from privbench.workload.generators.rows import RowSource
from privbench.workload.generators.values import Row
from privbench.workload.rebind import functions, patterns
from privbench.workload.rebind.columns import Operand
from privbench.workload.rebind.sites import Shape, Site

#: Members of a list whose length is not known.
_MEMBERS = 3
_MOST_MEMBERS = 1000
_LONGEST = 1000
_TRIES = 8
_RANGES = ("low", "high")


class Columns:
    """Values of operands in synthetic rows.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: RowSource) -> None:
        self.rows = rows
        self._values: dict[tuple[str, str, tuple[str, ...]], list[str | None]] = {}

    def values(self, operand: Operand) -> list[str | None]:
        """One value a row, None where it is NULL, not known or too long."""
        key = (operand.table.key, operand.column.name, operand.steps)
        if key not in self._values:
            self._values[key] = [
                self.value(operand, row) for row in self.rows.starts(operand.table)
            ]
        return self._values[key]

    @staticmethod
    def value(operand: Operand, row: Row) -> str | None:
        """The value in one row, None where it is NULL, not known or too long."""
        text = row[operand.column.name]
        found = None if text is None else functions.apply(text, operand.steps)
        return None if found is None or len(found) > _LONGEST else found


class Chooser:
    """Chooses the literals of one query.

    What a query asks of one table is taken from one row of it, so that conditions on several
    columns hold together for at least that row.

    Args:
        columns: Values.
        rng: Decides.
        own: Rows that joined occurrences of tables are to take their values from.
    """

    def __init__(
        self,
        columns: Columns,
        rng: np.random.Generator,
        own: Mapping[int, Row] | None = None,
    ) -> None:
        self._columns = columns
        self._own = own or {}
        self._rng = rng
        self._places: dict[int, float] = {}
        self._members: dict[tuple[object, ...], list[str]] = defaultdict(list)
        self._keys: dict[int, str] = {}

    def choose(self, found: Sequence[Site]) -> dict[int, list[str]]:
        """New values by the number of the mark, several where it stands for a list."""
        chosen: dict[int, list[str]] = {}
        # Keys first, outer ones before inner ones: values are what they lead to.
        for site in sorted((s for s in found if s.role == "key"), key=_depth):
            key = self._key(site)
            if key is not None:
                chosen[site.mark.number] = [key]
                self._keys[site.mark.number] = key
        for site in found:
            # An empty text tells nothing, and `nullif(x, '')` means it.
            if site.role == "value" and (site.mark.original or site.mark.kind == "parameter"):
                values = self._value(self._settled(site))
                if values:
                    chosen[site.mark.number] = values
        _put_in_order(found, chosen)
        return chosen

    def _key(self, site: Site) -> str | None:
        """A key that the synthetic values have: the old one if it is among them."""
        if site.operand is None:
            return None
        operand = self._settled(site).operand
        assert operand is not None
        held = [functions.keys(text) for text in self._columns.values(operand) if text is not None]
        known = sorted({key for keys in held for key in keys})
        if not known:
            return None
        old = site.mark.original
        return old if old in known else known[int(self._rng.integers(len(known)))]

    def _settled(self, site: Site) -> Site:
        """With the chosen keys in the steps of its operand."""
        operand = site.operand
        if operand is None or not any(step.startswith(functions.KEY) for step in operand.steps):
            return site
        steps = tuple(self._step(step) for step in operand.steps)
        return replace(site, operand=replace(operand, steps=steps))

    def _step(self, step: str) -> str:
        name, _, number = step.partition(" ")
        return f"{name} {self._keys.get(int(number), '')}" if name == functions.KEY else step

    def _value(self, site: Site) -> list[str]:
        operand = site.operand
        assert operand is not None
        values = self._columns.values(operand)
        present = [text for text in values if text is not None]
        if not present:
            return []
        if site.shape == "array":
            return [_array(self._several(operand, present, _size(site.mark.original)))]
        if site.shape == "member" or site.mark.many:
            count = _MEMBERS if site.mark.many else 1
            drawn = self._several(operand, present, count)
        else:
            drawn = [self._one(site, values, present)]
        return [text for text in (_fitted(site, one) for one in drawn) if text is not None]

    def _one(self, site: Site, values: Sequence[str | None], present: Sequence[str]) -> str:
        assert site.operand is not None
        row = self._own.get(site.operand.source)
        if row is None:
            own = values[self._row(site.operand.source, len(values))]
        else:
            own = self._columns.value(site.operand, row)
        text = own if own is not None else self._any(present)
        old = site.mark.original
        if site.shape == "pattern":
            return patterns.like(old, text, self._rng)
        if site.shape == "regex":
            return patterns.regex(old, text, self._rng)
        if site.shape == "prefix":
            return patterns.prefix(old, text)
        if site.shape == "infix":
            return patterns.infix(old, text, self._rng)
        return self._beyond(text, present, site.shape) if site.shape in _RANGES else text

    def _beyond(self, text: str, present: Sequence[str], shape: Shape) -> str:
        """A bound that lets the value pass: another value, unless it is the column's last."""
        own = place(text)
        beyond = [
            one for one in present if (place(one) < own if shape == "low" else own < place(one))
        ]
        return self._any(beyond) if beyond else text

    def _several(self, operand: Operand, present: Sequence[str], count: int) -> list[str]:
        """Different values, as far as there are, for the members of one list after another."""
        seen = self._members[operand.source, operand.column.name, operand.steps]
        row = self._own.get(operand.source)
        own = None if row is None else self._columns.value(operand, row)
        found = []
        for _ in range(count):
            fresh = [self._any(present) for _ in range(_TRIES)]
            if own is not None and own not in seen:
                fresh[0] = own
            text = next((text for text in fresh if text not in seen), fresh[0])
            seen.append(text)
            found.append(text)
        return found

    def _row(self, source: int, rows: int) -> int:
        """The row that stands for one occurrence of a table."""
        share = self._places.setdefault(source, float(self._rng.random()))
        return int(share * rows)

    def _any(self, present: Sequence[str]) -> str:
        return present[int(self._rng.integers(len(present)))]


def place(text: str) -> tuple[int, float, str]:
    """Where a value stands among those of its column: numbers by size, others by their text."""
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text)


def _put_in_order(found: Sequence[Site], chosen: dict[int, list[str]]) -> None:
    """Let the lower bounds of a column be the lower ones of what was drawn for its bounds."""
    bounds: Mapping[tuple[object, ...], list[Site]] = defaultdict(list)
    for site in found:
        bounded = site.shape in _RANGES and site.operand is not None and not site.negated
        if bounded and site.mark.number in chosen:
            assert site.operand is not None
            operand = site.operand
            bounds[operand.source, operand.column.name, operand.steps, site.cast].append(site)
    for group in bounds.values():
        texts = sorted((chosen[site.mark.number][0] for site in group), key=place)
        group.sort(key=lambda site: site.shape != "low")
        for site, text in zip(group, texts, strict=True):
            chosen[site.mark.number] = [text]


def _depth(site: Site) -> int:
    return len(site.operand.steps) if site.operand else 0


def _fitted(site: Site, text: str) -> str | None:
    """The value in the type that the literal is cast to, without the sign that stands before it."""
    if site.cast and site.shape in ("equal", "member", "low", "high"):
        fitted = functions.apply(text, (f"cast {site.cast}",))
        if fitted is None:
            return None
        text = fitted
    if not site.negated:
        return text
    return text[1:] if text.startswith("-") else f"-{text}"


def _size(old: str) -> int:
    """Elements of an array's text."""
    return min(old.count(",") + 1, _MOST_MEMBERS) if old else _MEMBERS


def _array(values: Sequence[str]) -> str:
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in values)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"
