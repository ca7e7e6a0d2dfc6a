"""Circuits (sum-product networks): structure, exact inference, sampling, storage.

Knows nothing of privacy or PostgreSQL.
"""

from privbench.circuit.build import Builder
from privbench.circuit.inference import log_likelihood, marginal, probabilities
from privbench.circuit.structure import Circuit

__all__ = ["Builder", "Circuit", "log_likelihood", "marginal", "probabilities"]
