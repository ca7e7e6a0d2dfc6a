"""The stable interface for synthesizers of other packages; all else may change without notice.

``docs/plugins.md`` shows a complete example. A `TableSynthesizer` learns the columns of each table,
while privbench handles keys, sizes and fan-outs; a `Synthesizer` learns the whole database. Private
rows are behind `Session`: every measurement goes through `TableFit.measure` or `Session.measure`,
which charge it, write it into the ledger and only then add noise.
"""

from privbench.domain import Codes, Domain
from privbench.errors import ConfigError, ModelError
from privbench.learning.draw import draw
from privbench.learning.graphical.one_way import one_way
from privbench.learning.graphical.table_model import AttributeModel
from privbench.learning.synthetic import SyntheticTable
from privbench.privacy import (
    DatabaseSpec,
    Measurement,
    Query,
    Question,
    Sensitivity,
    Session,
    noise_sd,
)
from privbench.privacy.queries import (
    Axis,
    Column,
    DependenceScores,
    Histogram,
    Joint,
    PairScores,
    PublicArray,
    RowSubset,
)
from privbench.synthesizers import FittedModel, Options, PlanInput, Synthesizer
from privbench.synthesizers.database import TableFit, TableSynthesizer

__all__ = [
    "AttributeModel",
    "Axis",
    "Codes",
    "Column",
    "ConfigError",
    "DatabaseSpec",
    "DependenceScores",
    "Domain",
    "FittedModel",
    "Histogram",
    "Joint",
    "Measurement",
    "ModelError",
    "Options",
    "PairScores",
    "PlanInput",
    "PublicArray",
    "Query",
    "Question",
    "RowSubset",
    "Sensitivity",
    "Session",
    "Synthesizer",
    "SyntheticTable",
    "TableFit",
    "TableSynthesizer",
    "draw",
    "noise_sd",
    "one_way",
]
