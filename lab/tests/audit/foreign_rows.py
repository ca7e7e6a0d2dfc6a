"""Other rows of the same spec, which have nothing to do with those of a database."""

from collections.abc import Mapping

import numpy as np

from privbench.privacy.data import (
    Attribute,
    Cells,
    Grid,
    Labels,
    PrivateDatabase,
    PrivateTable,
    Words,
)
from privbench.privacy.recoding import NAN, NEG_INF, NULL, POS_INF
from privbench.privacy.units import BOTTOM


def emptied(rows: PrivateDatabase) -> PrivateDatabase:
    """The database without a row: the neighbour of a neighbour, and so on, of any."""
    return foreign(rows, {}, most=0)


def foreign(
    rows: PrivateDatabase, public: Mapping[str, int], *, most: int = 90, seed: int = 1
) -> PrivateDatabase:
    """A database of the same spec that has nothing to do with these rows, lawful or not.

    ``public`` are the numbers of rows of the public tables.
    """
    rng = np.random.default_rng(seed)
    counts = {name: int(rng.integers(most // 2, most + 1)) for name in rows.spec.tables}
    tables = {}
    for name, table in rows.spec.tables.items():
        held, count = rows._tables[name], counts[name]
        tables[name] = PrivateTable(
            count,
            {place: _foreign(item, rng, count) for place, item in held._attributes.items()},
            {
                key.name: rng.integers(BOTTOM, (counts | public).get(key.parent, 0), count)
                for key in table.keys
            },
        )
    return PrivateDatabase(rows.spec, tables)


def _foreign(attribute: Attribute, rng: np.random.Generator, count: int) -> Attribute:
    if isinstance(attribute, Cells):
        return Cells(rng.integers(attribute.domain.size, size=count), attribute.domain)
    labels = Labels(rng.integers(-1, 9, count), [f"foreign {number}" for number in range(9)])
    if isinstance(attribute, Labels):
        return labels
    if isinstance(attribute, Words):
        firsts = rng.integers(-1, 200, count).astype(np.int32)
        return Words(labels, np.arange(1, count + 1), firsts)
    special = np.array([NULL, NAN, NEG_INF, POS_INF])[rng.integers(0, 4, count)]
    return Grid(np.where(rng.random(count) < 0.2, special, rng.integers(-(2**50), 2**50, count)))
