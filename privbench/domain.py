"""Coded domains of columns.

Every modelled column (*attribute*) is a vector of small integers. Codes ``0 .. values-1`` are the
values, in the column's order when ``ordered``; then come the special cells (for example ``other``,
``nan``, ``below``, ``above``); NULL, when the column may hold it, is the last code.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

#: Codes of one attribute: shape (rows,), the narrowest unsigned type that holds the domain.
Codes = NDArray[np.unsignedinteger[Any]]
#: What is publicly known of the values of an SQL expression, so that they can be sent in few bits.
#: It is either a range of int8 (values beyond it may arrive as the −∞ and +∞ of a grid, and −2⁶³ as
#: the next greater number), or a list of ASCII texts (all other texts may arrive as one text).
PublicValues = range | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """The domain of one attribute: how many values, special cells and NULL its codes stand for.

    >>> Domain(10, ordered=True, specials=("other",), nullable=True).size
    12
    """

    values: int  # number of ordinary cells, at least 0
    ordered: bool = False  # whether the ordinary cells follow an order that range predicates use
    specials: tuple[str, ...] = ()  # names of the special cells that follow the ordinary ones
    nullable: bool = False  # whether the last code is NULL
    # Ordinary cells ``core[0] .. core[1]-1``, for which the domain was made; the cells outside are
    # tails for distant values, and mostly empty. None means that all cells belong to the core.
    core: tuple[int, int] | None = None
    # Where cells differ in width: the first point of every ordinary cell, and one past the last, as
    # integers whose distances are those of the values. Used for denoising alone, so neither stored
    # nor compared.
    edges: tuple[int, ...] | None = field(default=None, compare=False, repr=False)
    # Whether the codes only shape surrogate values, which no query can name. Used for the budget
    # alone, so neither stored nor compared.
    filler: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.values < 0 or self.size < 1:
            raise ValueError("a domain must have at least one cell")
        if self.core is not None and not 0 <= self.core[0] <= self.core[1] <= self.values:
            raise ValueError("the core must lie within the ordinary cells")
        if self.edges is not None and len(self.edges) != self.values + 1:
            raise ValueError("a domain must have one edge more than ordinary cells")

    @property
    def size(self) -> int:
        """The number of codes, special cells and NULL included."""
        return self.values + len(self.specials) + self.nullable

    @property
    def null_code(self) -> int | None:
        """The code of NULL, or None where NULL cannot occur."""
        return self.size - 1 if self.nullable else None

    def special_code(self, name: str) -> int:
        """Return the code of a special cell, for example ``other``."""
        return self.values + self.specials.index(name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest unsigned type that holds every code."""
        return np.dtype(np.min_scalar_type(self.size - 1))

    def to_json(self) -> dict[str, Any]:
        """Return the domain as a JSON object, which `from_json` reads."""
        return {
            "values": self.values,
            "ordered": self.ordered,
            "specials": list(self.specials),
            "nullable": self.nullable,
            "core": None if self.core is None else list(self.core),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return the domain that a JSON object of `to_json` describes."""
        core = data["core"]
        return cls(
            int(data["values"]),
            bool(data["ordered"]),
            tuple(str(name) for name in data["specials"]),
            bool(data["nullable"]),
            None if core is None else (int(core[0]), int(core[1])),
        )
