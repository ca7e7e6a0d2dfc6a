"""Columns with a grid (numbers, dates, times): reader and codec, for public and released ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from psycopg import sql

from privbench.arrays import Ints, Rng
from privbench.config import ColumnConfig
from privbench.domain import Domain, PublicValues
from privbench.encoding.base import (
    DEFAULT_DECIMALS,
    CategoriesNeed,
    Codec,
    CodeMap,
    ColumnReader,
    Need,
    PartNeed,
    ReleasedDomain,
    Step,
    attribute,
    null_mask,
)
from privbench.encoding.bounds import Bounds, BoundsNeed, Range, default_range, public_range
from privbench.encoding.scale import (
    GREATEST,
    LINEAR,
    UNIT_STEPS,
    Scale,
    log_grid,
    scale_of,
)
from privbench.privacy.recoding import NAN, NULL, EdgesRecoding, Recoding
from privbench.rules.named import DATES, is_moment, suggested_dates, suggested_range
from privbench.schema import Column, ColumnType

#: Dates are near each other within this part of a range; octaves of distances, and those in units.
_NEARER, _OCTAVES, _NEAR = 16, 12, 8


@dataclass(frozen=True)
class OrderedCodec(Codec):
    """Turns each code of an ordered column into a value drawn from the code's cell."""

    kind: ClassVar[str] = "ordered"

    recoding: EdgesRecoding  # the cells
    settled: bool  # whether the cells were public before the fit
    limits: tuple[int, int]  # public least and greatest grid point, inclusive
    # The released step of drawn values, of numbers their decimals; None for any value of the type.
    step: int | None = None
    # Released shares of the values that are multiples of each step; () where they are not kept.
    law: tuple[float, ...] = ()
    # Released laws of the scale's cycles, () for one that noise hides; () where all are hidden.
    cycles: tuple[tuple[float, ...], ...] = ()

    @property
    def scale(self) -> Scale:
        """The type's grid, with the released step and the released shares of weekdays and hours."""
        scale = scale_of(self.type)
        if scale is None:
            raise ValueError(f"type {self.type.sql} has no grid")
        if self.step is not None or self.law:
            scale = scale.with_step(self.step, self.law)
        return scale.with_cycles(self.cycles) if self.cycles else scale

    @property
    def domains(self) -> dict[str, Domain]:
        return {self.column: self.recoding.domain}

    @property
    def recodings(self) -> dict[str, Recoding]:
        return {} if self.settled else {self.column: self.recoding}

    def decode(self, codes: CodeMap, rng: Rng, rows: int | None = None) -> pa.Array:
        """Return a value in the cell of each code.

        For `below` and `above`, one near the last cell.
        """
        values = codes[self.column]
        domain = self.recoding.domain
        lows, highs = self.cells()
        scale = self.scale
        points = scale.draw(lows[values], highs[values], rng)
        marks = {
            name: np.asarray(values == domain.special_code(name), np.bool_)
            for name in domain.specials
            if name in scale.specials
        }
        return scale.build(points, {**marks, "null": null_mask(values, domain)})

    @property
    def since(self) -> str:
        return self.recoding.since

    def distances(self, base: OrderedCodec) -> OrderedCodec | None:
        """Return a codec for distances from another column, up to a part of that column's range.

        The cells grow in octaves on both sides. None is returned if the steps of both columns
        differ, or have no fixed length, as months.
        """
        unit, (first, end) = self.scale.spacing, base.recoding.core or (0, -1)
        if base.step != self.step or self.scale.aligned(unit, 2 * unit) != (unit, 2 * unit):
            return None
        most = (base.recoding.edges[end] - base.recoding.edges[first]) // _NEARER
        unit *= max(most // unit >> _OCTAVES, 1)
        most //= unit
        edges = (unit * log_grid(-most, most + 1, near=_NEAR)).tolist()
        specials = tuple(name for name in self.recoding.specials if name in self.scale.specials)
        cells = EdgesRecoding(tuple(edges), specials, self.nullable, (0, len(edges) - 1))
        return replace(self, recoding=replace(cells, since=base.column), law=(), cycles=())

    def cells(self) -> tuple[Ints, Ints]:
        """Return the first point, and the point after the last, of each code's cell.

        Both are arbitrary for NULL and NaN.
        """
        domain, edges = self.recoding.domain, self.recoding.edges
        lows = np.full(domain.size, edges[0], np.int64)
        highs = np.full(domain.size, edges[1], np.int64)
        lows[: domain.values], highs[: domain.values] = edges[:-1], edges[1:]
        lo, hi = self.limits
        if "below" in domain.specials:
            cell = domain.special_code("below")
            low, end = 2 * edges[0] - edges[1], edges[0]
            if not self.scale.has_value(low, end):
                low, _ = self.scale.aligned(low, end)
            lows[cell], highs[cell] = max(lo, low), end
        if "above" in domain.specials:
            cell = domain.special_code("above")
            lows[cell], highs[cell] = edges[-1], min(hi + 1, 2 * edges[-1] - edges[-2])
        return lows, highs

    def to_json(self) -> dict[str, Any]:
        edges, core = self.recoding.edges, self.recoding.core
        unit = edges[-1] - edges[0] == len(edges) - 1
        own = super().to_json()
        del own["recoding"]
        return {
            **own,
            "unit": unit,
            "edges": [edges[0], edges[-1]] if unit else list(edges),
            "specials": list(self.recoding.specials),
            "core": core and list(core),
            "since": self.since,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        edges = tuple(int(edge) for edge in data["edges"])
        if data["unit"]:
            if not 0 < edges[1] - edges[0] <= 1_000_000:
                raise ValueError("too many edges")
            edges = tuple(range(edges[0], edges[1] + 1))
        core = None
        if data["core"] is not None:
            first, end = data["core"]
            core = int(first), int(end)
        ends = tuple(data["specials"]), bool(data["nullable"]), core
        recoding = EdgesRecoding(edges, *ends, since=str(data.get("since", "")))
        codec = super().from_json({**data, "recoding": recoding})
        # This refuses steps that the type does not have. Places are no part of a model.
        places = codec.scale.places(edges)
        return replace(codec, recoding=replace(recoding, places=places))


#: Types of whole numbers with fewer values than this mostly hold codes: smallint, numeric(4).
_CODES = 2**16
#: A default range is cut at whole numbers if that gives more edges than this.
_WHOLES = 16


@dataclass(frozen=True)
class OrderedReader(ColumnReader):
    """Reads a column of ordered values (numbers, dates, times) as integers of the type's scale."""

    scale: Scale
    range: Range  # public knowledge of its range
    bins: int | None = None  # number of equal cells of a wide public range, from the config
    title: str = ""  # the column's name without its table's prefix
    # How many distinct values one unit may propose, so that values which many units share are
    # released; 0 for no such release.
    per_unit: int = 0
    # Literals of the range to take where nothing is known; None for the type's.
    default_range: tuple[str, str] | None = None
    spelled: bool = False  # whether its values are texts, whose spelling shows their step

    @property
    def attributes(self) -> tuple[str, ...]:
        """The column, and the steps and cycles of its values, which are read for their release."""
        return (self.name, self._steps, *self._cycles) if self._counted else (self.name,)

    @property
    def _steps(self) -> str:
        return attribute(self.name, "step")

    @property
    def _cycles(self) -> dict[str, PartNeed]:
        """The needs of cycles, by their attributes."""
        names = {attribute(self.name, part): size for part, size in self.scale.cycles.items()}
        return {name: PartNeed(name, range(1, size), cycle=True) for name, size in names.items()}

    @property
    def _counted(self) -> bool:
        """Whether steps and cycles are released: not for public ranges, whose cells are settled.

        Times of day have a public range, of which each cell holds many values.
        """
        settled = self.range.settled and self.scale.open_range
        return self.scale.step_choices is not None and not (settled or self.spelled)

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The releases of bounds and frequent values, and of steps and cycles.

        A public range needs no bounds.
        """
        parts: tuple[Need, ...] = ()
        if self._counted:
            parts = self._step, *self._cycles.values()
        return parts if self.range.settled else (self._bounds, *parts, *self._shared)

    @property
    def _step(self) -> PartNeed:
        choices = self.scale.step_choices
        assert choices is not None
        default = DEFAULT_DECIMALS if self.scale.fractions else choices[-1]
        law = self.scale.chances, self.scale.multiples
        return PartNeed(self._steps, choices, default, False, *law)

    @property
    def _shared(self) -> tuple[CategoriesNeed, ...]:
        """The need of values that many units share (such as prices), which cells would hide."""
        low, high = self.scale.limits
        # Most whole numbers of few digits are codes, which have cells of their own anyway.
        if not self.per_unit or (self.scale.whole and high - low < _CODES):
            return ()
        name = attribute(self.name, "values")
        return (CategoriesNeed(name, self.per_unit, own=True, grid=self.name),)

    @property
    def _bounds(self) -> BoundsNeed:
        low, high, named = self._default
        ends = (low, high) if named else ()
        moments = self.scale.moments() if self._may_be_moment else np.empty(0, np.int64)
        return BoundsNeed(
            self.name,
            self._within(self.scale.candidates(), *moments),
            Bounds(low, high, released=False),
            poor_default=not self.scale.octaves,
            named=named,
            coarser=tuple(self._within(few, *ends, *moments) for few in self.scale.coarser()),
            plausible=self.scale.plausible,
            calendars=self.scale.calendars if len(moments) else {},
        )

    @property
    def _may_be_moment(self) -> bool:
        """Whether numbers may be dates by the column's name, and no other range is sure."""
        title = self.title or self.name
        other = suggested_range(title)
        return is_moment(title) and not (other is not None and other[2])

    def _within(self, points: Ints, *more: int) -> Ints:
        """The ends of the public range and the given points that lie within it, ascending."""
        lo, hi = self.range.lo, self.range.hi
        every = np.concatenate([points, [lo, hi, *more]])
        return np.unique(every[(every >= lo) & (every <= hi)])

    @cached_property
    def _default(self) -> tuple[int, int, bool]:
        """The range to take where none is released, and whether the column's name suggests it."""
        title = self.title or self.name
        dates = suggested_dates(title) if self.column.type.base in DATES else None
        ends = dates or self.default_range or self.scale.default_range
        return default_range(self.scale, self.range, title, self.column.default, ends)

    def select(self, identifier: sql.Composable) -> list[tuple[sql.Composable, str]]:
        return [(self.scale.select(identifier), self.alias())]

    @property
    def known(self) -> dict[str, PublicValues]:
        if "nan" in self.scale.specials:
            # NaN lies outside the range, but has a grid point, so the range alone would lose it.
            return {self.alias(): range(NAN, GREATEST)}
        lo, hi = (self.range.lo, self.range.hi) if self.range.settled else self.scale.limits
        return {self.alias(): range(lo, hi + 1)}

    def read(self, batch: Mapping[str, pa.Array]) -> dict[str, Any]:
        points = self.scale.read(batch[self.alias()])
        parts = {}
        if self._counted:
            outside = (points < self.range.lo) | (points > self.range.hi)
            # Points outside a public range may arrive as others (`known`), and have no step.
            inside = np.where(outside & self.range.settled, NULL, points)
            parts = {self._steps: self.scale.steps_of(inside)}
            for name, part in zip(self._cycles, self.scale.cycles, strict=True):
                parts[name] = self.scale.cycle_of(part, inside)
        return {self.name: self._recoding.apply(points) if self.range.settled else points, **parts}

    @property
    def cells(self) -> dict[str, Domain]:
        return {self.name: self._recoding.domain} if self.range.settled else {}

    def finish(self, released: Mapping[str, ReleasedDomain]) -> OrderedCodec:
        step, result = None, released.get(self._steps)
        if self.range.settled:
            recoding = self._recoding
        else:
            bounds = released[self.name]
            assert isinstance(bounds, Bounds)
            # Dates that are written as numbers have no other step.
            result = None if bounds.step is not None else result
            step = self._step_to_draw(bounds, result)
            (shared,) = self._shared or (None,)
            values = released.get(shared.attribute, ()) if shared else ()
            assert isinstance(values, tuple)
            recoding = self._released_recoding(bounds, step, tuple(map(int, values)))
        limits = (self.range.lo, self.range.hi)
        law = result.law if isinstance(result, Step) else ()
        cycles = tuple(
            found.law if isinstance(found := released.get(name), Step) else ()
            for name in self._cycles
        )
        return OrderedCodec(
            *self.head, recoding, self.range.settled, limits, step, law, cycles * any(cycles)
        )

    def _step_to_draw(self, bounds: Bounds, result: ReleasedDomain | None) -> int | None:
        """The step of drawn values; None where any value of the type may be drawn."""
        choices = self.scale.step_choices
        if choices is None or not isinstance(result, Step):
            return bounds.step
        if result.choice is None:
            # Noise hides the step.
            return DEFAULT_DECIMALS if self.scale.fractions and not bounds.released else None
        if result.choice == choices[-1]:
            return None
        # If the range holds no multiple of the step, its values have a finer one.
        scale = self.scale.with_step(result.choice)
        contains_step = scale.first_aligned(self.range.lo) <= self.range.hi
        return result.choice if contains_step and scale.has_value(bounds.lo, bounds.hi) else None

    @cached_property
    def _recoding(self) -> EdgesRecoding:
        """The cells of a public range; made once for all batches."""
        lo, end, specials = self.range.lo, self.range.hi + 1, self.range.specials
        return public_cells(self.scale, lo, end, self.bins, specials, nullable=self.nullable)

    def _scales(self, bounds: Bounds, step: int | None) -> tuple[Scale, Scale, Scale]:
        """The grids of values, of cells within the bounds, and of cells beyond the bounds."""
        if step is None:
            return self.scale, self.scale, self.scale
        scale = self.scale.with_step(step)
        if bounds.released or not self.scale.fractions:
            return scale, scale, scale
        # A default range is cut at whole numbers, and does not show which decimals lie beyond it.
        whole = self.scale.with_step(0)
        many = len(whole.edges(bounds.lo, bounds.hi, cells=bounds.cells or LINEAR))
        return scale, whole if many > _WHOLES else scale, self.scale

    def _released_recoding(
        self, bounds: Bounds, step: int | None, values: tuple[int, ...] = ()
    ) -> EdgesRecoding:
        """Cells of a released range, with growing cells, `below` and `above` on its two sides."""
        scale, cells_of, beyond = self._scales(bounds, step)
        first, end = cells_of.first_aligned(self.range.lo), self.range.hi + 1
        first = min(first, end - 1)
        lo = min(max(min(bounds.lo, bounds.hi), first), end - 1)
        hi = min(max(bounds.lo, bounds.hi, lo + 1), end)
        least, most, named = self._default
        likely = named and least <= lo and hi <= most
        lo, hi = cells_of.aligned(lo, hi)
        lo, hi = max(lo, first), min(hi, end)
        cells = bounds.cells or LINEAR
        below, above = beyond.tails(lo, hi, cells)
        if self.scale.octaves and not self.scale.fractions and lo >= 0:
            # Amounts and counts are mostly not negative: the one cell `below` shows whether some
            # values are. Not for floats, for which that cell is too narrow: decimals drawn in it
            # would be rounded to -0.
            below = [max(edge, 0) for edge in below]
        if likely:
            # Noise may fill every further cell. If a name suggests too narrow a range, most values
            # outside lie above it, so cells above it stay; but not where the suggestion is hard:
            # there is no thirteenth month.
            below = [edge for edge in below if edge >= least]
            suggestion = suggested_range(self.title or self.name)
            if suggestion is not None and suggestion[2]:
                above = [edge for edge in above if edge <= most]
        inside = cells_of.edges(lo, hi, bins=self.bins, cells=cells, inner=bounds.inner)
        # A value of more decimals than are drawn has no cell: the next would hold no number.
        own = [value for value in values if scale.first_aligned(value) == value]
        edges = {*below, *inside, *above, *own, *(scale.first_aligned(v + 1) for v in own)}
        if self.scale.octaves and min(edges) < 0 < max(edges):
            # Values near zero are common: a cell across zero would mix those of both signs.
            edges.add(0)
        own_edges = scale.with_own_cells(sorted({min(max(edge, first), end) for edge in edges}))
        outer = ("below",) * (own_edges[0] > self.range.lo) + ("above",) * (own_edges[-1] < end)
        last = max(bisect_left(own_edges, min(hi, own_edges[-1])), 1)
        core = (bisect_left(own_edges, lo), last)
        return EdgesRecoding(
            tuple(own_edges),
            outer + self.range.specials,
            self.nullable,
            core,
            scale.places(own_edges),
        )

    def describe(self) -> tuple[str, str]:
        kind = f"{self.column.type.sql} on a public grid"
        if self.range.settled:
            how = f"{kind}, public range{', step released' if self._counted else ''}"
            return how, "declared in the config, a CHECK or by the type"
        word = "step" if self.scale.chances else "decimals"
        how = f"{kind}, bounds {f'and {word} ' if self._counted else ''}released"
        if self._shared:
            how += ", and, exactly and under δ, values that many units share"
        least, most = self.scale.limits
        low, high = self.range.lo > least, self.range.hi < most
        if self.range.declared or (low and high):
            return how, "the declared range has many steps: it limits what is released"
        ends = "a least value" if low else "a greatest value" if high else "no range"
        return how, f"{ends} is declared"


def ordered_part(table: str, column: Column, **more: Any) -> OrderedReader:
    """Return the reader of one part of a column, say the end of a range.

    Its type must have a grid.
    """
    scale = grid_of(column.type)
    known = public_range(table, column, scale, ColumnConfig(), ())
    return OrderedReader(table, column, scale, known, **more)


def grid_of(type_: ColumnType) -> Scale:
    """Return the scale of a type that must have one."""
    scale = scale_of(type_)
    assert scale is not None
    return scale


def public_cells(
    scale: Scale,
    lo: int,
    end: int,
    bins: int | None,
    specials: tuple[str, ...] = (),
    *,
    nullable: bool,
) -> EdgesRecoding:
    """Return the cells of a public range ``[lo, end)``: one per step, or `bins` if it is wide."""
    edges = scale.edges(lo, end, bins=bins if end - lo > UNIT_STEPS else None)
    own_edges = scale.with_own_cells(edges)
    return EdgesRecoding(tuple(own_edges), specials, nullable)
