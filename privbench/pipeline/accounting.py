"""``accounting = "auto"``: pure ε or zCDP, whichever leaves less noise in what a fit will measure.

Decided from plan and config alone, before the first event: `plan` and `fit` decide alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from scipy.special import ndtri

from privbench.config import PrivacyConfig
from privbench.pipeline.prepare import FitPlan
from privbench.privacy import Accounting, rho_for, root_sums
from privbench.privacy.units import single


def settle_accounting(plan: FitPlan, privacy: PrivacyConfig) -> Accounting:
    """The accounting of a fit: the config's, or under ``auto`` the one with less noise.

    Of m equal events, noise has the standard deviation √2·m/ε under pure ε and √(m/2ρ) under zCDP;
    m category lists have the thresholds (m/ε)·log(m/2δ) and √(m/2ρ)·Φ⁻¹(1 − δ/2m), as zCDP needs
    half of δ for its conversion. zCDP is taken if the mean of the logarithms of these ratios, over
    all events that catalog and config foresee, those of the first rounds among them, is above 0: at
    (3.2, 10⁻⁹) from four lists or nineteen histograms on, or two lists with what else their columns
    are measured by.

    Args:
        plan: The fit's plan.
        privacy: ε (given), δ, and what accounting is asked for.
    """
    if privacy.accounting != "auto":
        return privacy.accounting
    if privacy.epsilon is None or privacy.delta == 0.0:
        return "pure"
    lists, others = [*_lists(plan)], [*_histograms(plan)]
    load = root_sums((roots, 1.0) for roots in (*lists, *others))
    list_load = root_sums((roots, 1.0) for roots in lists)
    rho = rho_for(privacy.epsilon, privacy.delta / 2 if lists else privacy.delta)
    gain = 0.0
    for roots in others:
        most = max(load[root] for root in roots)
        gain += math.log(math.sqrt(2) * most / privacy.epsilon) - math.log(_sd(most, rho))
    for roots in lists:
        most = max(load[root] for root in roots)
        delta = privacy.delta / max(list_load[root] for root in roots)
        pure = most / privacy.epsilon * max(-math.log(2 * delta), 1.0)
        gain += math.log(pure) - math.log(_sd(most, rho) * max(-float(ndtri(delta / 2)), 1.0))
    return "zcdp" if gain > 0 else "pure"


def _sd(events: float, rho: float) -> float:
    return math.sqrt(events / (2 * rho))


def _lists(plan: FitPlan) -> Iterator[frozenset[str]]:
    """Root tables of every category list that may be asked for."""
    for table, _ in plan.lists().values():
        yield plan.spec.roots(table)


def _histograms(plan: FitPlan) -> Iterator[frozenset[str]]:
    """Root tables of every other event that is foreseen.

    A table's total, and the second one of a root table; every attribute by itself and with another;
    every key. Of what columns need: every range and number of decimals, the law by rank of every
    list, and the units of a table that a unit may have many rows in.
    """
    for item in plan.private:
        table = item.table.key
        attributes = sum(len(reader.attributes) for reader in item.readers.values())
        second = plan.spec.tables[table].own is None
        count = 1 + second + attributes + max(attributes - 1, 0) + len(item.keys)
        needs = sum(len(reader.needs) for reader in item.readers.values())
        units = needs > 0 and not single(plan.spec, table)
        yield from [plan.spec.roots(table)] * (count + needs + units)
