"""Surrogate values of text columns, made by Faker, and how often each of them occurs."""

import math
from functools import cache
from typing import Any

import lazy_loader
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from privbench.arrays import Ints, Rng
from privbench.encoding.uniqueness import number_texts
from privbench.errors import ConfigError
from privbench.rules.named import Semantic, packaged

#: Blocks of equally frequent values, the most frequent first. A block is the number of its values
#: and their total share of the rows without a label; 0 values means that every row has its own.
Surrogates = tuple[tuple[int, float], ...]

#: Shares of values in columns whose name suggests that many rows share few: a status, a type.
KIND: Surrogates = ((1, 0.45), (1, 0.2), (2, 0.2), (4, 0.15))
#: Most values of all blocks; a release (`RankedCounts`) has half as many at most.
_MOST = 2**21


def times(surrogates: Surrogates, rows: int) -> Ints:
    """Return how many rows each surrogate value has, shape (values,); they sum to ``rows``.

    >>> times(((1, 0.5), (2, 0.4), (0, 0.1)), 10).tolist()
    [5, 2, 2, 1]
    """
    values = np.array([count for count, _ in surrogates], dtype=np.int64)
    shares = np.array([share for _, share in surrogates])
    single = int(np.rint(rows * shares[values == 0].sum() / shares.sum()))
    listed, parts = values[values > 0], shares[values > 0]
    single = single if len(listed) else rows
    ends = np.cumsum(np.repeat(parts / np.maximum(listed, 1), listed))
    counts = np.diff(np.rint(ends / ends[-1] * (rows - single)), prepend=0) if len(ends) else ends
    return np.append(counts[counts > 0], np.ones(single)).astype(np.int64)


def surrogates_from_json(data: Any) -> Surrogates:
    """Return the frequencies of surrogate values that a model's JSON holds."""
    result = tuple((count, float(share)) for count, share in data)
    sound = all(type(n) is int and n >= 0 and 0 < share < math.inf for n, share in result)
    if not sound or sum(count for count, _ in result) > _MOST:
        raise ValueError("these are no blocks of surrogate values")
    return result


#: Imported when the first text is generated, as the import searches all of Faker's languages.
faker = lazy_loader.load("faker")
#: Values in one pool.
POOL = 2000
#: Draws per distinct value that is wanted; if the type has no more values than are wanted, 2 % of
#: them are not drawn.
_DRAWS = 4
#: Types of which few rows share a value.
_OWN = frozenset(
    {"email", "name", "phone_number", "sha256", "slug", "street_address", "url", "user_name"}
)


@cache
def providers() -> frozenset[str]:
    """Return the Faker providers that a config or a model may name.

    No other Faker method is called.
    """
    return frozenset(packaged("names")["providers"])


def known_provider(provider: Any) -> str:
    """Return the provider that a model names; raise a ValueError if it is not on the list."""
    if provider not in providers():
        raise ValueError("there is no such provider of surrogate text")
    return str(provider)


def declared(provider: str, *, table: str, column: str) -> Semantic:
    """Return the semantic type that the config declares for a column."""
    if provider not in providers():
        raise ConfigError(
            f"there is no provider {provider!r} of surrogate text.",
            table=table,
            column=column,
            remedy=f"Use one of {', '.join(sorted(providers()))}.",
        )
    return Semantic(provider, False)


def made_semantic(provider: str, rows: int, rng: Rng, max_length: int | None = None) -> pa.Array:
    """Return values of a semantic type: distinct if few rows share a value, else from a pool."""
    if provider in _OWN:
        return made_distinct(provider, rows, rng, max_length)
    pool = _pool(provider, rows, rng, max_length)
    return pool.take(pa.array(rng.integers(len(pool), size=rows)))


def made_distinct(provider: str, rows: int, rng: Rng, max_length: int | None = None) -> pa.Array:
    """Return surrogate values, as many different ones as the semantic type has.

    For a type whose values few rows share (names, mail addresses), repeated values get a number, so
    that all differ; for other types (first names, cities) values may repeat.
    """
    own = provider in _OWN
    pool = pc.unique(_pool(provider, rows if own else _DRAWS * rows, rng, max_length, even=True))
    result = pool.take(pa.array(np.arange(rows) % len(pool)))
    number = np.arange(rows) // len(pool)
    again = np.flatnonzero(number) if own else number[:0]
    return number_texts(result, again, number[again] + 1, max_length)


def _pool(provider: str, rows: int, rng: Rng, top: int | None, *, even: bool = False) -> pa.Array:
    name = known_provider(provider)
    # Weighting by frequency takes most of Faker's time, and distinct values do not need it.
    maker = faker.Faker("en_US", use_weighting=not even)
    maker.seed_instance(int(rng.integers(2**62)))
    pool = [getattr(maker, name)() for _ in range(min(POOL, max(rows, 1)))]
    texts = (str(value) if isinstance(value, (str, int, float)) else "" for value in pool)
    return pa.array([text.replace("\x00", "")[:top] for text in texts], pa.string())
