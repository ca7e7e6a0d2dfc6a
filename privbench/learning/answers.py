"""Noisy answers of a session, and how they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from privbench.learning.denoise import Floats
from privbench.privacy import Measurement, Query

#: Noisy values and their standard deviation.
Answer = tuple[Floats, float]
#: Asks for a measurement: (query, amount, label).
Measure = Callable[[Query, float, str], Answer]
#: Asks for measurements that do not depend on each other's answers.
MeasureAll = Callable[[Sequence[Measurement]], list[Answer]]
