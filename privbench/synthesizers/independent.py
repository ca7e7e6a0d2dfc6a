"""The baseline synthesizer of independent columns: noisy one-way marginals, keys included.

Every other synthesizer has to beat it. It is the default synthesizer without pairs of columns and
without columns of the targets of references: their part of the budget goes to one-ways and fan-ins.
"""

from typing import ClassVar

from privbench.synthesizers.base import Options
from privbench.synthesizers.database import DatabaseSynthesizer


class IndependentSynthesizer(DatabaseSynthesizer[Options]):
    """Learns every column by itself, without dependence between columns."""

    name: ClassVar[str] = "independent"
    learns = "columns"
