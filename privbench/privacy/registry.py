"""The mechanisms by name, and which one serves a task under each accounting."""

from __future__ import annotations

from privbench.privacy.events import Accounting, MechanismName
from privbench.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Mechanism,
    VectorMechanism,
)
from privbench.privacy.selection import NoisyMax, NoisyMaxGumbel, Selection
from privbench.privacy.thresholds import GaussianThreshold, LaplaceThreshold, Threshold

#: Cells of a statistic.
VECTOR: dict[Accounting, VectorMechanism] = {"pure": DiscreteLaplace(), "zcdp": DiscreteGaussian()}
#: The index of a largest score.
SELECTION: dict[Accounting, Selection] = {"pure": NoisyMax(), "zcdp": NoisyMaxGumbel()}
#: Labels of an unknown domain.
THRESHOLD: dict[Accounting, Threshold] = {"pure": LaplaceThreshold(), "zcdp": GaussianThreshold()}

#: Every mechanism by its name.
MECHANISMS: dict[MechanismName, Mechanism] = {
    mechanism.name: mechanism
    for family in (VECTOR, SELECTION, THRESHOLD)
    for mechanism in family.values()
}
