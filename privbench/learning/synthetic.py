"""What a model samples: codes and row indices of parents, no key values yet."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Codes

#: Row index of a missing parent: the reference is NULL.
NULL = -1


@dataclass(slots=True)
class SyntheticTable:
    """Synthetic rows of one private table.

    Attributes:
        rows: Number of rows.
        codes: Codes per attribute, each of shape (rows,).
        parents: Row index of the parent per foreign key name, int64, shape (rows,); −1 is NULL.
            The parent may be a private or a public table.
    """

    rows: int
    codes: dict[str, Codes] = field(default_factory=dict)
    parents: dict[str, NDArray[np.int64]] = field(default_factory=dict)


@dataclass(slots=True)
class SyntheticDatabase:
    """Synthetic rows of every private table, by ``schema.table``."""

    tables: dict[str, SyntheticTable]
