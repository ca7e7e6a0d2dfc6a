"""A table's law as a JSON object and arrays, and back from input that may be hostile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.domain import Domain
from privbench.errors import ModelError
from privbench.learning.bins import Bins
from privbench.learning.denoise import Floats
from privbench.learning.junction.byrows import RowLaw
from privbench.learning.junction.given import GivenColumn
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.structure import Layout, Pair, layout
from privbench.learning.junction.tree import JunctionTree

_FORMAT = 3
#: Most codes of a domain, and bins of an attribute, that a stored law may claim.
_MAX_CODES, _MAX_BINS = 2**31, 255
_TOLERANCE = 1e-6

Ints = NDArray[np.int64]


def law_to_arrays(law: TableLaw) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A JSON object and arrays that `law_from_arrays` reads back."""
    near = law.tree.layout.near
    header = {
        "format": _FORMAT,
        "domains": [[name, domain.to_json()] for name, domain in law.domains.items()],
        "rows": law.rows,
        "order": [int(name) for name in law.tree.layout.order],
        "pairs": [[i, j, i in near[j] or j in near[i]] for i, j in law.tables],
        "given": [[column.levels, column.name, len(column.of)] for column in law.given],
        "tau": law.tau,
        "fine": [[i, j] for i, j in law.fine],
        "by_rows": [[part.place, len(part.shares)] for part in law.by_rows],
        "clip": law.clip,
    }
    arrays = {
        "of": _join([bins.of for bins in law.bins], np.uint8),
        "inside": _join([bins.inside for bins in law.bins], np.float64),
        "counts": _join([bins.counts for bins in law.bins], np.float64),
        "laws": _join(law.tree.laws, np.float64),
        "given": _join([column.of for column in law.given], np.uint8),
        "fine": _join(list(law.fine.values()), np.float64),
        "row_groups": _join([part.of for part in law.by_rows], np.uint8),
        "row_shares": _join([part.shares for part in law.by_rows], np.float64),
        "tables": _join(list(law.tables.values()), np.float64),
    }
    return header, arrays


def _join(parts: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *(part.ravel().astype(dtype) for part in parts)])


def law_from_arrays(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TableLaw:
    """The law that `law_to_arrays` wrote; anything else is refused.

    Raises:
        ModelError: Not a valid law.
    """
    try:
        return _read(header, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ModelError("not a valid law of a table: it is damaged.") from error


def _read(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TableLaw:
    _require(header["format"] == _FORMAT, "it was written in another format")
    domains = {str(name): Domain.from_json(data) for name, data in header["domains"]}
    codes = [domain.size for domain in domains.values()]
    _require(len(domains) == len(header["domains"]), "an attribute occurs twice")
    _require(all(size <= _MAX_CODES for size in codes), "a domain is too large")
    bins = _bins(codes, arrays)
    given = _given(header["given"], arrays)
    sizes = (*(column.size for column in given), *(part.size for part in bins))
    order = [int(name) for name in header["order"]]
    _require(sorted(order) == list(range(len(sizes))), "the order is not an order")
    _require(all(name < len(given) for name in order[: len(given)]), "the order is not an order")
    pairs = [(int(i), int(j)) for i, j, _ in header["pairs"]]
    known = all(0 <= i < j < len(sizes) for i, j in pairs) and len(set(pairs)) == len(pairs)
    _require(known and all(j >= len(given) for _, j in pairs), "a pair is unknown")
    inside = [pair for pair, (_, _, held) in zip(pairs, header["pairs"], strict=True) if held]
    found = layout(order, inside, sizes, len(given))
    _require(found.fits, "a clique is too large")
    rows, tau = float(header["rows"]), int(header["tau"])
    _require(0 < rows < 2**53 and 0 < tau < 2**31, "its size is no size")
    tree = JunctionTree(found, sizes, _laws(found, sizes, arrays))
    beside = [(int(i), int(j)) for i, j in header["fine"]]
    _require(all(0 <= i < j < len(codes) for i, j in beside), "a pair is unknown")
    fine = _tables(beside, codes, arrays, "fine")
    tables = _tables(pairs, sizes, arrays)
    by_rows, clip = _by_rows(header["by_rows"], bins, arrays), int(header["clip"])
    _require(0 < clip < 2**31, "its clip is no clip")
    return TableLaw(domains, bins, tree, tables, rows, given, tau, fine, by_rows, clip)


def _by_rows(
    header: Any, bins: Sequence[Bins], arrays: Mapping[str, NDArray[Any]]
) -> tuple[RowLaw, ...]:
    places, sizes = [int(place) for place, _ in header], [int(size) for _, size in header]
    _require(all(0 <= place < len(bins) for place in places), "an attribute is unknown")
    _require(all(0 < size <= _MAX_BINS for size in sizes), "an attribute has too many groups")
    lengths = [bins[place].size for place in places]
    of = _parts(_array(arrays, "row_groups", np.uint8, sum(lengths)), lengths)
    shares = _parts(_array(arrays, "row_shares", np.float64, sum(sizes)), sizes)
    for group, law in zip(of, shares, strict=True):
        _require(int(group.max()) < len(law), "a group is unknown")
        _require(bool(np.abs(law.sum() - 1) <= _TOLERANCE), "a law is not normalised")
    return tuple(
        RowLaw(place, group.astype(np.int64), law)
        for place, group, law in zip(places, of, shares, strict=True)
    )


def _given(header: Any, arrays: Mapping[str, NDArray[Any]]) -> tuple[GivenColumn, ...]:
    lengths = [int(length) for _, _, length in header]
    _require(all(0 < length <= _MAX_CODES for length in lengths), "a given attribute is empty")
    parts = _parts(_array(arrays, "given", np.uint8, sum(lengths)), lengths)
    levels = [int(level) for level, _, _ in header]
    _require(all(0 < level <= _MAX_BINS for level in levels), "an owner is too far")
    return tuple(
        GivenColumn(level, str(name), part.astype(np.int64))
        for level, (_, name, _), part in zip(levels, header, parts, strict=True)
    )


def _require(condition: bool | np.bool_, message: str) -> None:
    if not condition:
        raise ModelError(f"not a valid law of a table: {message}.")


def _array(
    arrays: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic], size: int
) -> NDArray[Any]:
    value = arrays.get(name)
    fits = isinstance(value, np.ndarray) and value.dtype == np.dtype(dtype)
    if value is None or not fits or value.shape != (size,):
        raise ModelError(f"not a valid law of a table: array {name!r} does not fit.")
    positive = np.isfinite(value).all() and (value >= 0).all()
    _require(positive, f"array {name!r} holds a negative or infinite number")
    return value


def _parts(values: NDArray[Any], sizes: Sequence[int]) -> list[NDArray[Any]]:
    return np.split(values, np.cumsum(sizes)[:-1]) if sizes else []


def _bins(codes: Sequence[int], arrays: Mapping[str, NDArray[Any]]) -> tuple[Bins, ...]:
    of = _parts(_array(arrays, "of", np.uint8, sum(codes)), codes)
    inside = _parts(_array(arrays, "inside", np.float64, sum(codes)), codes)
    sizes = [int(part.max()) + 1 for part in of]
    counts = _parts(_array(arrays, "counts", np.float64, sum(sizes)), sizes)
    for place, law, size in zip(of, inside, sizes, strict=True):
        mass = np.bincount(place, law, minlength=size)
        _require(size <= _MAX_BINS, "an attribute has too many bins")
        _require((np.abs(mass - 1) <= _TOLERANCE).all(), "a bin's law is not normalised")
    _require(all(part.sum() > 0 for part in counts), "an attribute has no mass")
    rows = zip(of, inside, counts, strict=True)
    return tuple(Bins(place.astype(np.int64), law, mass) for place, law, mass in rows)


def _laws(
    found: Layout, sizes: Sequence[int], arrays: Mapping[str, NDArray[Any]]
) -> tuple[Floats, ...]:
    shapes = [
        (*(sizes[other] for other in near), sizes[name]) for name, near in enumerate(found.near)
    ]
    lengths = [prod(shape) for shape in shapes]
    flat = _parts(_array(arrays, "laws", np.float64, sum(lengths)), lengths)
    laws = tuple(part.reshape(shape) for part, shape in zip(flat, shapes, strict=True))
    for law in laws:
        _require((np.abs(law.sum(axis=-1) - 1) <= _TOLERANCE).all(), "a law is not normalised")
    return laws


def _tables(
    pairs: Sequence[Pair],
    sizes: Sequence[int],
    arrays: Mapping[str, NDArray[Any]],
    name: str = "tables",
) -> dict[Pair, Floats]:
    shapes = [(sizes[i], sizes[j]) for i, j in pairs]
    lengths = [prod(shape) for shape in shapes]
    flat = _parts(_array(arrays, name, np.float64, sum(lengths)), lengths)
    tables = zip(pairs, flat, shapes, strict=True)
    return {pair: part.reshape(shape) for pair, part, shape in tables}
