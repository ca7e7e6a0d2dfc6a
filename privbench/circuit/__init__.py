"""Circuits (sum-product networks): structure, exact inference, sampling, storage.

Knows nothing of privacy or PostgreSQL.
"""

from privbench.circuit.build import Builder
from privbench.circuit.explain import most_probable
from privbench.circuit.inference import log_likelihood, marginal, probabilities, probability
from privbench.circuit.sampling import sample
from privbench.circuit.storage import from_arrays, to_arrays
from privbench.circuit.structure import Circuit
from privbench.circuit.validate import check

__all__ = [
    "Builder",
    "Circuit",
    "check",
    "from_arrays",
    "log_likelihood",
    "marginal",
    "most_probable",
    "probabilities",
    "probability",
    "sample",
    "to_arrays",
]
