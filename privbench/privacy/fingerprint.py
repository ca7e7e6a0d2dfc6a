"""A short name for a query's public content, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from itertools import chain

import numpy as np


def fingerprint(value: object) -> str:
    """Sixteen hexadecimal digits of a value made of dataclasses, arrays, containers and scalars.

    Queries are frozen values of public fields, so two queries with one fingerprint ask the same.
    Other objects count by their attributes, or by the ``digest`` of their content that they hold.

    >>> fingerprint((1, "a")) == fingerprint((1, "a")) != fingerprint((1, "b"))
    True
    """
    return _digest(value, {}).hex()[:16]


#: Items from which on a container's digest is made of all of them at once; for time alone.
_MANY = 32

#: Digests by identity within one call, with the value itself so that no identity is used twice.
_Memo = dict[int, tuple[object, bytes]]


def _digest(value: object, memo: _Memo) -> bytes:
    """Digest of a value; a part that occurs often (a split, an array of bins) is read once."""
    if type(value) is str:
        return _text(value)
    known = memo.get(id(value))
    if known is not None:
        return known[1]
    found = _joined(_parts(value, memo))
    memo[id(value)] = (value, found)
    return found


@lru_cache(maxsize=1 << 14)
def _text(value: str) -> bytes:
    """Digest of a string: names occur in query after query."""
    return _joined(_parts(value, {}))


def _joined(parts: Iterable[bytes]) -> bytes:
    """Digest of parts, each after its length."""
    listed = list(parts)
    lengths = [len(part).to_bytes(8, "little") for part in listed]
    return hashlib.sha256(b"".join(chain.from_iterable(zip(lengths, listed, strict=True)))).digest()


@cache
def _fields(kind: type) -> tuple[tuple[str, bytes], ...]:
    """Names of a dataclass's fields."""
    return tuple((field.name, field.name.encode()) for field in fields(kind))


def _parts(value: object, memo: _Memo) -> Iterator[bytes]:
    kind: type = type(value)
    yield kind.__qualname__.encode()
    if isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value):
        for name, text in _fields(kind):
            yield text
            yield _digest(getattr(value, name), memo)
    elif isinstance(value, Mapping):
        yield str(len(value)).encode()
        for key in sorted(value, key=fingerprint):
            yield _digest(key, memo)
            yield _digest(value[key], memo)
    elif isinstance(value, Set):
        yield "".join(sorted(fingerprint(item) for item in value)).encode()
    elif isinstance(value, tuple | list):
        yield str(len(value)).encode()
        whole = _together(value)
        if whole is not None:
            yield whole
            return
        for item in value:
            yield _digest(item, memo)
    elif isinstance(value, bytes):
        yield value
    elif value is None or isinstance(value, str | int | float | np.generic):
        yield repr(value).encode()
    else:
        yield from _content(value, memo)


def _together(value: tuple[object, ...] | list[object]) -> bytes | None:
    """Digest of many items of one simple type at once, or None: scores have thousands of pairs.

    Items are integers, tuples of integers, or hold a ``digest`` of their content.
    """
    kinds = {type(item) for item in value}
    if len(value) < _MANY or len(kinds) != 1:
        return None
    kind = kinds.pop()
    if kind is int or (
        kind is tuple and all(type(part) is int for item in value for part in item)  # type: ignore[attr-defined]
    ):
        return hashlib.sha256(b"integers" + repr(value).encode()).digest()
    digests = [getattr(item, "digest", None) for item in value]
    if is_dataclass(kind) or not all(isinstance(digest, bytes) for digest in digests):
        return None
    name = f"digests of {kind.__qualname__}".encode()
    return _joined([name, *digests])  # type: ignore[list-item]


def _content(value: object, memo: _Memo) -> Iterator[bytes]:
    """Parts of an object that is neither a dataclass nor a container."""
    digest = getattr(value, "digest", None)
    if isinstance(digest, bytes):
        yield digest
        return
    for name in _names(value):
        yield name.encode()
        yield _digest(getattr(value, name, None), memo)


def _names(value: object) -> list[str]:
    """Attributes of an object."""
    slots = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
    found = {name for names in slots for name in ([names] if isinstance(names, str) else names)}
    return sorted(found | set(getattr(value, "__dict__", {})))
