"""Semantic types of text: values from a Faker pool, by the config or by the column's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import lazy_loader
import numpy as np
import pyarrow as pa

from privbench.encoding.lists import packaged, whole
from privbench.encoding.uniqueness import factorize, number_texts, ranks
from privbench.errors import ConfigError
from privbench.roles.names import listed, noun, snake
from privbench.schema import Table

if TYPE_CHECKING:
    from faker import Faker

#: Imported when a text is made up: it looks through all its languages.
faker = lazy_loader.load("faker")
#: Values in one pool.
POOL = 2000
#: Types of which few rows share a value.
_OWN = frozenset(
    {"email", "name", "phone_number", "sha256", "slug", "street_address", "url", "user_name"}
)


@dataclass(frozen=True, slots=True)
class Semantic:
    """A semantic type.

    Attributes:
        provider: Faker's name of it.
        listed: Whether common values may still be released as categories under δ (a city may,
            an e-mail address never).
    """

    provider: str
    listed: bool


#: Fewest columns of a table that may share a prefix, and the part of all that must.
_LEAST_ALIKE, _ALIKE = 3, 0.8


def by_name(column: str) -> Semantic | None:
    """The semantic type that a column's name tells, or None.

    >>> by_name("EmailAddress").provider, by_name("first_name").listed, by_name("emailpromotion")
    ('email', True, None)
    """
    name = snake(column)
    return next((kind for pattern, kind in _names() if pattern.match(name)), None)


def plain_name(column: str, table: Table) -> str:
    """A column's name without a prefix that nearly all columns of its table share.

    Examples are ``c_phone`` beside ``c_name``, and ``ps_comment`` beside ``ps_availqty``.
    """
    prefix = re.match(r"[^\W_]+_(?=[^\W\d_])", column)
    if prefix is None:
        return column
    names = [item.name for item in table.columns]
    alike = sum(name.startswith(prefix[0]) for name in names)
    enough = alike >= max(_LEAST_ALIKE, _ALIKE * len(names))
    return column[prefix.end() :] if enough else column


def of_table(column: str, table: str) -> Semantic | None:
    """The semantic type of a column that says little without its table: the name of a person.

    >>> of_table("name", "Customers").provider, of_table("name", "genres"), of_table("id", "users")
    ('name', None, None)
    """
    people = listed("tables", "subject") | listed("tables", "work")
    person = snake(column) == "name" and not people.isdisjoint(noun(table)[-1:])
    return Semantic("name", False) if person else None


def is_kind(column: str) -> bool:
    """Whether a column's name tells that many rows share few values.

    >>> is_kind("OrderStatus"), is_kind("nationality"), is_kind("title")
    (True, True, False)
    """
    return _kinds().match(snake(column)) is not None


def is_own(column: str) -> bool:
    """Whether a column's name tells that few rows share a value.

    >>> is_own("c_comment"), is_own("OrderNumber"), is_own("title_of_courtesy"), is_own("clerk")
    (True, True, False, False)
    """
    return _own().match(snake(column)) is not None


@cache
def _names() -> tuple[tuple[re.Pattern[str], Semantic], ...]:
    """Semantic types by patterns of names, in the order in which they are tried."""
    return tuple(
        (whole(item["names"]), Semantic(item["provider"], item["listed"]))
        for item in packaged("names")["semantic"]
    )


@cache
def _own() -> re.Pattern[str]:
    """Names by their last words, of columns in which few rows share a value."""
    return re.compile(rf"(\w*_)?({'|'.join(packaged('names')['own'])})s?\Z")


@cache
def _kinds() -> re.Pattern[str]:
    """The same of columns in which many rows share few values, some glued: ``orderstatus``."""
    words, glued = ("|".join(packaged("names")[name]) for name in ("kinds", "glued"))
    return re.compile(rf"(\w*_)?({words})s?\Z|\w*({glued})\Z")


@cache
def providers() -> frozenset[str]:
    """Names of Faker's that a config or a model may give; no other method of it is called."""
    return frozenset(packaged("names")["providers"])


def declared(provider: str, *, table: str, column: str) -> Semantic:
    """The semantic type that the config names.

    Raises:
        ConfigError: It is not one of `providers`.
    """
    if provider not in providers():
        raise ConfigError(
            f"there is no provider {provider!r} of made-up text.",
            table=table,
            column=column,
            remedy=f"Use one of {', '.join(sorted(providers()))}.",
        )
    return Semantic(provider, False)


def _faker(seed: int) -> Faker:
    maker: Faker = faker.Faker("en_US")
    maker.seed_instance(seed)
    return maker


def _one(maker: Faker, provider: str) -> str | None:
    value = getattr(maker, provider)()
    return str(value) if isinstance(value, (str, int, float)) else None


def made_semantic(
    provider: str, rows: int, rng: np.random.Generator, max_length: int | None = None
) -> pa.Array:
    """Values of a semantic type: different ones where few rows share one, else from a pool.

    Args:
        provider: Faker's name of the type.
        rows: Number of values.
        rng: Seeds the pool and draws from it.
        max_length: Longer values are cut.

    Returns:
        An Arrow string array.

    Raises:
        ValueError: There is no such type: a model may name any.
    """
    if provider in _OWN:
        return made_distinct(provider, rows, rng, max_length)
    pool = _pool(provider, rows, rng, max_length)
    return pool.take(pa.array(rng.integers(len(pool), size=rows)))


def made_distinct(
    provider: str, rows: int, rng: np.random.Generator, max_length: int | None = None
) -> pa.Array:
    """The same, all different as far as their length allows: a number tells like ones apart."""
    pool = _pool(provider, rows, rng, max_length)
    found = pool.take(pa.array(np.arange(rows) % len(pool)))
    number = ranks(factorize(found))
    again = np.flatnonzero(number)
    return number_texts(found, again, number[again] + 1, max_length)


def _pool(provider: str, rows: int, rng: np.random.Generator, max_length: int | None) -> pa.Array:
    if provider not in providers():
        raise ValueError("there is no such provider of made-up text")
    maker = _faker(int(rng.integers(2**62)))
    made = [_one(maker, provider) or "" for _ in range(min(POOL, max(rows, 1)))]
    return pa.array([value.replace("\x00", "")[:max_length] for value in made], pa.string())
