"""A circuit as plain arrays and a JSON object, and back from input that may be hostile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.circuit.structure import Circuit
from privbench.domain import Domain
from privbench.errors import ModelError

_FORMAT = 1
_DTYPES: dict[str, type[np.generic]] = {
    "kind": np.uint8,
    "offsets": np.int64,
    "children": np.int64,
    "weights": np.float64,
    "attribute": np.int32,
    "start": np.int64,
    "probabilities": np.float64,
}
#: Largest domain that a stored circuit may claim.
_MAX_CELLS = 2**31


def to_arrays(circuit: Circuit) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A JSON object (format, domains) and the arrays of a circuit."""
    domains = [[name, domain.to_json()] for name, domain in circuit.domains.items()]
    header = {"format": _FORMAT, "domains": domains}
    return header, {name: getattr(circuit, name) for name in _DTYPES}


def from_arrays(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Circuit:
    """The circuit that `to_arrays` wrote; anything else is refused.

    Raises:
        ModelError: Not a valid circuit.
    """
    plain = {name: _array(arrays, name, dtype) for name, dtype in _DTYPES.items()}
    return Circuit(domains=_domains(header), **plain)


def _array(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    value = arrays.get(name)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype != np.dtype(dtype):
        raise ModelError(f"not a valid circuit: array {name!r} is missing or of another type.")
    return value


def _domains(header: Mapping[str, Any]) -> dict[str, Domain]:
    try:
        if header["format"] != _FORMAT:
            raise ModelError("the circuit was written in another format.")
        pairs = [(str(name), Domain.from_json(data)) for name, data in header["domains"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError("not a valid circuit: the header is damaged.") from error
    domains = dict(pairs)
    if len(domains) != len(pairs) or any(d.size > _MAX_CELLS for d in domains.values()):
        raise ModelError("not a valid circuit: the header is damaged.")
    return domains
