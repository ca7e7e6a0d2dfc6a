"""Circuits (sum-product networks): structure, exact inference, sampling, storage.

Knows nothing of privacy or PostgreSQL.
"""

from privbench_lab.circuit.build import Builder
from privbench_lab.circuit.inference import log_likelihood, marginal, probabilities
from privbench_lab.circuit.structure import Circuit

__all__ = ["Builder", "Circuit", "log_likelihood", "marginal", "probabilities"]
