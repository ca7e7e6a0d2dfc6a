"""A short name for a query's public content, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass

import numpy as np


def fingerprint(value: object) -> str:
    """Sixteen hexadecimal digits of a value made of dataclasses, arrays, containers and scalars.

    Queries are frozen values of public fields, so two queries with one fingerprint ask the same.
    Other objects count by their attributes.

    >>> fingerprint((1, "a")) == fingerprint((1, "a")) != fingerprint((1, "b"))
    True
    """
    return _digest(value, {}).hex()[:16]


#: Digests by identity within one call, with the value itself so that no identity is used twice.
_Memo = dict[int, tuple[object, bytes]]


def _digest(value: object, memo: _Memo) -> bytes:
    """Digest of a value; a part that occurs often (a split, an array of bins) is read once."""
    known = memo.get(id(value))
    if known is not None:
        return known[1]
    digest = hashlib.sha256()
    for part in _parts(value, memo):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    found = digest.digest()
    memo[id(value)] = (value, found)
    return found


def _parts(value: object, memo: _Memo) -> Iterator[bytes]:
    yield type(value).__qualname__.encode()
    if isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value):
        for field in fields(value):
            yield field.name.encode()
            yield _digest(getattr(value, field.name), memo)
    elif isinstance(value, Mapping):
        yield str(len(value)).encode()
        for key in sorted(value, key=fingerprint):
            yield _digest(key, memo)
            yield _digest(value[key], memo)
    elif isinstance(value, Set):
        yield "".join(sorted(fingerprint(item) for item in value)).encode()
    elif isinstance(value, tuple | list):
        yield str(len(value)).encode()
        for item in value:
            yield _digest(item, memo)
    elif isinstance(value, bytes):
        yield value
    elif value is None or isinstance(value, str | int | float | np.generic):
        yield repr(value).encode()
    else:
        for name in _names(value):
            yield name.encode()
            yield _digest(getattr(value, name, None), memo)


def _names(value: object) -> list[str]:
    """Attributes of an object that is neither a dataclass nor a container."""
    slots = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
    found = {name for names in slots for name in ([names] if isinstance(names, str) else names)}
    return sorted(found | set(getattr(value, "__dict__", {})))
