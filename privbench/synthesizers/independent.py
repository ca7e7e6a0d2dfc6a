"""Independent columns: noisy one-way marginals of all of them, keys included.

The baseline that every learner of dependence has to beat. It is the default synthesizer without
pairs of columns and without columns of the targets of references: their part of the budget goes to
one-ways and fan-ins.
"""

from typing import ClassVar

from privbench.synthesizers.base import Options
from privbench.synthesizers.database import DatabaseSynthesizer


class IndependentSynthesizer(DatabaseSynthesizer[Options]):
    """Independent columns."""

    name: ClassVar[str] = "independent"
    learns = "columns"
