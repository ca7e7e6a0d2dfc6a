"""Semantic types of text: values from a Faker pool, by the config or by the column's name."""

from __future__ import annotations

import re
import types
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from faker import Faker

from privbench.errors import ConfigError

#: Values in one pool.
POOL = 2000


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


_NAMES: tuple[tuple[str, Semantic], ...] = (
    (r"e_?mail(_?(address|addr))?(_?\d)?", Semantic("email", False)),
    (r"(phone|mobile|fax|cell)(_?(phone|number|no|num|nr|home|work|cell|mobile))?(_?\d)?"
     r"|tel(ephone)?(_?\w+)?|(home|work|office|business)_?(phone|fax)",
     Semantic("phone_number", False)),
    (r"(first|given|fore|middle)_?name", Semantic("first_name", True)),
    (r"(last|family|sur|maiden)_?name|surname", Semantic("last_name", True)),
    (r"(full|display|contact|customer|person|real)_?name", Semantic("name", False)),
    (r"(street|mailing|postal|bill(ing)?|ship(ping)?|delivery|invoice|home)_?address"
     r"|address(_?(line)?_?\d)?|street",
     Semantic("street_address", False)),
    (r"(\w+_)?(city|town)(_?name)?", Semantic("city", True)),
    (r"(\w+_)?company(_?name)?|employer", Semantic("company", True)),
    (r"(\w+_)?(url|uri|website|homepage|web_?site|web_?page)", Semantic("url", False)),
    (r"(\w+_)?ip(_?(address|addr|v4))?", Semantic("ipv4_private", False)),
    (r"user_?name|(user_?)?login(_?name)?|(user_?)?nice_?name|nick(_?name)?|screen_?name",
     Semantic("user_name", False)),
    (r"(user_?|encrypted_?|hashed_?)?(password|passwd|pass|pwd)(_?(hash|digest))?",
     Semantic("sha256", False)),
    (r"(\w+_)?slug|permalink", Semantic("slug", False)),
)  # fmt: skip
#: Last words of names of columns in which many rows share few values.
_KINDS = re.compile(
    r"(\w*_)?(status|state|type|kind|category|class|group|gender|sex|nationality|country"
    r"(_?(code|name))?|language|lang|locale|currency|colou?r|size|level|priority|severity|role"
    r"|position(_?text)?|region|continent|unit|method|mode|grade|rank|religion|department|dept"
    r"|format|rating|brand|source|channel|segment|plan|tier|stage|phase|result|reason|season"
    r"|weekday|month|frequency|suit|weather|fuel|species)s?\Z"
)
_COMPILED = tuple((re.compile(rf"(?:{pattern})\Z"), kind) for pattern, kind in _NAMES)


def by_name(column: str) -> Semantic | None:
    """The semantic type that a column's name tells, or None.

    >>> by_name("EmailAddress").provider, by_name("first_name").listed, by_name("emailpromotion")
    ('email', True, None)
    """
    name = snake(column)
    return next((kind for pattern, kind in _COMPILED if pattern.match(name)), None)


def is_kind(column: str) -> bool:
    """Whether a column's name tells that many rows share few values.

    >>> is_kind("OrderStatus"), is_kind("nationality"), is_kind("title")
    (True, True, False)
    """
    return _KINDS.match(snake(column)) is not None


def snake(column: str) -> str:
    """A column's name in small letters, with underscores between words."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column).lower().replace(" ", "_")


def declared(provider: str, *, table: str, column: str) -> Semantic:
    """The semantic type that the config names.

    Raises:
        ConfigError: Faker has no such provider, or it does not make single values.
    """
    usable = provider.isidentifier() and not provider.startswith(("_", "seed", "add_", "set_"))
    method = getattr(Faker(), provider, None) if usable else None
    if not isinstance(method, types.MethodType) or not _makes_scalars(provider):
        raise ConfigError(
            f"faker has no provider {provider!r} that makes single values.",
            table=table,
            column=column,
            remedy="Use one such as email, name, phone_number, city, company or job.",
        )
    return Semantic(provider, False)


def _makes_scalars(provider: str) -> bool:
    try:
        return isinstance(_one(_faker(0), provider), str)
    except (TypeError, ValueError, KeyError, AttributeError):
        return False


def _faker(seed: int) -> Faker:
    maker = Faker("en_US")
    maker.seed_instance(seed)
    return maker


def _one(maker: Faker, provider: str) -> str | None:
    value = getattr(maker, provider)()
    return str(value) if isinstance(value, (str, int, float)) else None


def made_semantic(
    provider: str, rows: int, rng: np.random.Generator, max_length: int | None = None
) -> pa.Array:
    """Values of a semantic type, drawn from a pool made for the purpose.

    Args:
        provider: Faker's name of the type.
        rows: Number of values.
        rng: Seeds the pool and draws from it.
        max_length: Longer values are cut.

    Returns:
        An Arrow string array.
    """
    maker = _faker(int(rng.integers(2**62)))
    made = [_one(maker, provider) or "" for _ in range(min(POOL, max(rows, 1)))]
    pool = pa.array([value.replace("\x00", "")[:max_length] for value in made], pa.string())
    return pool.take(pa.array(rng.integers(len(pool), size=rows)))
