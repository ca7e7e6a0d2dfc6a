"""Draws and text columns that the demonstration's tables are made of; all vectorised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from faker.providers.person.en_GB import Provider as Names
from numpy.typing import NDArray

from privbench.encoding.column_names import packaged

Array = NDArray[Any]
#: A table's columns by name: numpy arrays, or Arrow arrays where there are NULLs or text.
Columns = dict[str, Any]


def words() -> dict[str, Any]:
    """The vocabulary of the demonstration."""
    return packaged("demo_words", "privbench.pipeline")


def zipf(size: int, exponent: float = 1.0) -> Array:
    """Probabilities that fall with the rank; shape (size,), sum 1."""
    weights = 1.0 / np.arange(1, size + 1) ** exponent
    return np.asarray(weights / weights.sum())


def pick(rng: np.random.Generator, chances: Array) -> Array:
    """One category per row; `chances` has shape (rows, categories), rows need not sum to 1."""
    edges = np.cumsum(chances, axis=1)
    drawn = rng.random(len(chances)) * edges[:, -1]
    return np.asarray(np.minimum((drawn[:, None] >= edges).sum(axis=1), chances.shape[1] - 1))


def spread(rng: np.random.Generator, total: int, weights: Array) -> Array:
    """Owner of each of `total` rows, sorted, drawn by weight; shape (total,)."""
    return np.sort(rng.choice(len(weights), size=total, p=weights / weights.sum()))


def rank(owners: Array) -> Array:
    """Position of each row among its owner's rows, from 0; `owners` is sorted."""
    starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    return np.arange(len(owners)) - np.repeat(starts, np.diff(np.r_[starts, len(owners)]))


def nulls(values: Any, missing: Array) -> Any:
    """An Arrow array with NULL where `missing`."""
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return pc.if_else(pa.array(missing), pa.scalar(None, array.type), array)


def join(*parts: Any, separator: str = "") -> Any:
    """Text columns put together row by row."""
    columns = [pa.array(part) if isinstance(part, np.ndarray) else part for part in parts]
    return pc.binary_join_element_wise(*columns, separator)


def names(rng: np.random.Generator, size: int, female: Array) -> tuple[Array, Array]:
    """First and last names of `size` people, common ones more often."""
    last = np.array(list(Names.last_names))
    women, men = np.array(Names.first_names_female), np.array(Names.first_names_male)
    first = np.where(
        female,
        rng.choice(women, size, p=zipf(len(women), 0.7)),
        rng.choice(men, size, p=zipf(len(men), 0.7)),
    )
    return first, rng.choice(last, size, p=zipf(len(last), 0.6))


def email(first: Array, last: Array, number: Array, host: str) -> Any:
    """Addresses made unique by a number."""
    name = pc.utf8_lower(join(first, last, separator="."))
    return join(name, pa.array(number).cast(pa.string()), pa.scalar(host))


def instants(seconds: Array) -> Any:
    """Points in time (seconds) as timestamps with time zone."""
    return pa.array(seconds.astype("M8[s]")).cast(pa.timestamp("s", tz="UTC"))
