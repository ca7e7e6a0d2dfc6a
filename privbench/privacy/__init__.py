"""The privacy core: queries in, noisy releases out, each recorded in the ledger before its noise.

Its concepts are `PrivateDatabase` (the rows), `Query` (a statistic with its sensitivity), `Session`
(the only way out for values of private rows), `Mechanism` (the noise) and `Ledger` (the record of
what was spent).

Every function that touches the ledger raises a LedgerError if the ledger is damaged, in use or not
writable. A SchemaError names the table, attribute or axis that does not fit. Docstrings name only
the errors beyond these.
"""

from privbench.privacy.accountant import (
    Accountant,
    Guarantee,
    loss_within,
    rho_for,
    spendable,
)
from privbench.privacy.budget import MARGIN, Purse, allocate, root_sums
from privbench.privacy.events import Accounting, Event
from privbench.privacy.ledger import Fit, Ledger
from privbench.privacy.ledger_state import Cap, UnitDefinition
from privbench.privacy.noise import NoiseSource, SeededNoise
from privbench.privacy.query import GRID, Query, Sensitivity
from privbench.privacy.questions import LabelRelease, Measurement, Question, Selection
from privbench.privacy.release import Listed, NoisyResult, Release
from privbench.privacy.session import Session, noise_sd, open_session
from privbench.privacy.spec import PART, DatabaseSpec, KeySpec, Relation, TableSpec

__all__ = [
    "GRID",
    "MARGIN",
    "PART",
    "Accountant",
    "Accounting",
    "Cap",
    "DatabaseSpec",
    "Event",
    "Fit",
    "Guarantee",
    "KeySpec",
    "LabelRelease",
    "Ledger",
    "Listed",
    "Measurement",
    "NoiseSource",
    "NoisyResult",
    "Purse",
    "Query",
    "Question",
    "Relation",
    "Release",
    "SeededNoise",
    "Selection",
    "Sensitivity",
    "Session",
    "TableSpec",
    "UnitDefinition",
    "allocate",
    "loss_within",
    "noise_sd",
    "open_session",
    "rho_for",
    "root_sums",
    "spendable",
]
