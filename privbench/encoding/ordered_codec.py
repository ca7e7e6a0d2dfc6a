"""The released half of columns on a grid: from the code of a cell to a value in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from privbench.domain import Domain
from privbench.encoding.base import AnyCodes, Codec, null_mask, type_from_json
from privbench.encoding.scale import Points, Scale, scale_of
from privbench.privacy.data import EdgesRecoding, Recoding


@dataclass(frozen=True)
class OrderedCodec(Codec):
    """Draws a grid point in the cell of every code.

    Attributes:
        recoding: The cells.
        settled: Whether they were public before the fit.
        limits: Public least and greatest grid point, inclusive.
        decimals: Released number of decimals that values are drawn with; None for any number.
    """

    kind: ClassVar[str] = "ordered"

    recoding: EdgesRecoding
    settled: bool
    limits: tuple[int, int]
    decimals: int | None = None

    @property
    def scale(self) -> Scale:
        """The type's grid, with the released decimals.

        Raises:
            ValueError: The type has no grid, or its values no such decimals.
        """
        scale = scale_of(self.type)
        if scale is None:
            raise ValueError(f"type {self.type.sql} has no grid")
        return scale if self.decimals is None else scale.with_decimals(self.decimals)

    @property
    def domains(self) -> dict[str, Domain]:
        """One ordered domain."""
        return {self.column: self.recoding.domain}

    @property
    def recodings(self) -> dict[str, Recoding]:
        """The edges, where bounds were released."""
        return {} if self.settled else {self.column: self.recoding}

    def decode(
        self, codes: Mapping[str, AnyCodes], rng: np.random.Generator, rows: int | None = None
    ) -> pa.Array:
        """A value in the cell of every code; beyond the last cell, one near it."""
        values = codes[self.column]
        domain = self.recoding.domain
        lows, highs = self.cells()
        scale = self.scale
        points = scale.draw(lows[values], highs[values], rng)
        marks = {
            name: np.asarray(values == domain.special_code(name), dtype=np.bool_)
            for name in domain.specials
            if name in scale.specials
        }
        return scale.build(points, {**marks, "null": null_mask(values, domain)})

    def cells(self) -> tuple[Points, Points]:
        """First point, and one past the last, of every code's cell; NULL and NaN have any."""
        domain = self.recoding.domain
        edges = np.array(self.recoding.edges, dtype=np.int64)
        lows = np.full(domain.size, edges[0], dtype=np.int64)
        highs = np.full(domain.size, edges[1], dtype=np.int64)
        lows[: domain.values], highs[: domain.values] = edges[:-1], edges[1:]
        lo, hi = self.limits
        if "below" in domain.specials:
            cell = domain.special_code("below")
            width = int(edges[1]) - int(edges[0])
            lows[cell], highs[cell] = max(lo, int(edges[0]) - width), edges[0]
        if "above" in domain.specials:
            cell = domain.special_code("above")
            width = int(edges[-1]) - int(edges[-2])
            lows[cell], highs[cell] = edges[-1], min(hi + 1, int(edges[-1]) + width)
        return lows, highs

    def to_json(self) -> dict[str, Any]:
        """Edges, consecutive ones as a range."""
        edges = self.recoding.edges
        unit = edges[-1] - edges[0] == len(edges) - 1
        told = {} if self.decimals is None else {"decimals": self.decimals}
        return {
            **self.header(),
            "unit": unit,
            "edges": [edges[0], edges[-1]] if unit else list(edges),
            "specials": list(self.recoding.specials),
            "settled": self.settled,
            "core": None if self.recoding.core is None else list(self.recoding.core),
            "limits": list(self.limits),
            **told,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The codec that `to_json` wrote.

        Raises:
            ValueError: Edges that are no edges, or more than a million; decimals that the type does
                not have.
        """
        edges = [int(edge) for edge in data["edges"]]
        if data["unit"]:
            if not 0 < edges[1] - edges[0] <= 1_000_000:
                raise ValueError("too many edges")
            edges = list(range(edges[0], edges[1] + 1))
        specials = tuple(str(name) for name in data["specials"])
        nullable = bool(data["nullable"])
        core = data["core"]
        inner = None if core is None else (int(core[0]), int(core[1]))
        lo, hi = data["limits"]
        decimals = data.get("decimals")
        codec = cls(
            column=str(data["column"]),
            type=type_from_json(data["type"]),
            nullable=nullable,
            recoding=EdgesRecoding(tuple(edges), specials, nullable, inner),
            settled=bool(data["settled"]),
            limits=(int(lo), int(hi)),
            decimals=None if decimals is None else int(decimals),
        )
        codec.scale  # noqa: B018  (refuses decimals that the type does not have)
        return codec
