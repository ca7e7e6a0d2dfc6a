"""Fitting foreign keys: what the answers of `keyasks` become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from privbench.learning.denoise import Floats, Noise, denoise
from privbench.learning.fanfamily import bucket_centres, buckets
from privbench.learning.fanin import OFF, SHADES, fit_fan_in
from privbench.learning.fanlaw import FanLaw, constant
from privbench.learning.fanout import fit
from privbench.learning.keyasks import FAN_IN, FANS, NULLS, TARGETS, Answers, bounds_of
from privbench.learning.keys import KeyModel
from privbench.learning.unitrows import Evidence
from privbench.privacy import DatabaseSpec, KeySpec
from privbench.privacy.units import bound

#: Clip of the totals of owned tables (P17).
TOTAL_CLIP = 100
#: How far the number of references that are kept may be off, if rows do not tell it.
_UNKNOWN = 0.5
#: Rows without an owner are few against the others below this share.
_LITTLE = 0.25
#: Standard deviations of noise by which they are believed where they are not few.
_CLEAR = 3.5


@dataclass(frozen=True, slots=True)
class Sizes:
    """Noisy rows per table and how noisy they are.

    Attributes:
        rows: Rows per table, floored at 1.
        sd: Standard deviation of the noise per table; missing means unknown, taken as 0.
        weights: Released weight of the rows per table; missing means their number.
        drawn: Rows of owned tables as their synthetic owners have them.
        owners: Weight of the rows of owned tables that own others, as far as fan-outs tell it, and
            the standard deviation of that.
        units: Units that have rows in owned tables by a count of their own, likewise.
    """

    rows: Mapping[str, float]
    sd: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    drawn: Mapping[str, float] = field(default_factory=dict)
    owners: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    units: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def weight(self, table: str) -> float:
        """Released weight of the rows of a table."""
        return self.weights.get(table, self.rows[table])

    def best(self, table: str) -> float:
        """Rows of a table: its total, or what its owners have where noise drowns the total."""
        total = self.rows[table]
        return total if self.clear(table) else max(self.drawn.get(table, total), 1.0)

    def clear(self, table: str) -> bool:
        """Whether a total stands out from its own noise."""
        return self.rows[table] > 3 * self.sd.get(table, 0.0)


def parents_of(key: KeySpec, answers: Answers) -> tuple[float, float] | None:
    """Weight of a key's owners as its fan-out tells it, and the variance of that.

    Every owner stands in one bucket, so that the buckets' sum is one more noisy total.
    """
    if key.role != "own" or FANS not in answers:
        return None
    _, noisy, sd = answers[FANS]
    return float(noisy.sum()), max(sd * sd * len(noisy), 1e-18)


def fit_key(
    spec: DatabaseSpec,
    key: KeySpec,
    answers: Answers,
    sizes: Sizes,
    noise: Noise,
    links: Floats | None = None,
    outside: float | None = None,
    evidence: Evidence | None = None,
) -> KeyModel:
    """Fit a key's model to what was measured.

    Args:
        spec: What is public.
        key: The key.
        answers: What `measure_key` gave.
        sizes: Noisy rows per table.
        noise: Law of the noise.
        links: What `measure_links` gave, if that was asked before.
        outside: Number of references into other units that fan-in keeps, if synthetic rows tell it.
        evidence: Totals of the table, for OWN keys whose owners are few.
    """
    own = links is not None and len(links) == 3
    null = measured_null(spec, key, answers, 0.0 if links is None else float(links[0]))
    if TARGETS in answers:
        return _public(key, *answers[TARGETS][1:], noise)
    if FAN_IN in answers:
        query, noisy, sd = answers[FAN_IN]
        inside = links[2] if links is not None and own else 0.0
        linked = sizes.best(key.table) * (1.0 - null - inside)
        linked = linked if outside is None else max(outside, 1.0)
        targets = sizes.weight(key.parent)
        off = _UNKNOWN if outside is None else OFF
        most = linked * (1.0 + OFF) + 3 * sizes.sd.get(key.table, 0.0)
        size = (sizes.rows[key.parent], targets)
        shades = SHADES if spec.tables[key.parent].own else SHADES[:1]
        law = fit_fan_in(query, spec, noisy, sd, size, (linked, off * linked), most, shades)
        return KeyModel.of(key, null=null, law=law)
    if FANS in answers:
        law = _fan_out(spec, key, *answers[FANS][1:], sizes, null, evidence, noise)
        if evidence is not None and key.nullable:
            null = evidence.ownerless(law.mass)
        return KeyModel.of(key, null=null, law=law)
    return KeyModel.of(key, null=null, law=constant(1))


def measured_null(
    spec: DatabaseSpec, key: KeySpec, answers: Answers, unasked: float = 0.0
) -> float:
    """Rows without an owner (OWN), or the share of rows without a reference, as it was measured.

    Args:
        spec: What is public.
        key: The key.
        answers: What `measure_key` gave.
        unasked: What to say where it was not asked.
    """
    return _null(spec, key, *answers[NULLS][1:]) if NULLS in answers else unasked


def ownerless(spec: DatabaseSpec, key: KeySpec, answers: Answers) -> tuple[float, float] | None:
    """Rows without an owner by their weighted count, and the standard deviation of that."""
    if NULLS not in answers:
        return None
    _, noisy, sd = answers[NULLS]
    rows = bound(spec, key.table) if spec.tables[key.table].bound == "weights" else 1
    return float(noisy[0]) * rows, sd * rows


def _null(spec: DatabaseSpec, key: KeySpec, noisy: Floats, sd: float) -> float:
    """Rows without an owner (OWN), or the share of rows without a reference.

    A row without an owner is a unit of its own and weighs 1/τ (1 under truncation), so the weighted
    count tells their number. Below one standard deviation it is taken as none: most keys that may
    be NULL seldom are. Where it would add much to a table of few owned rows it has to be clear:
    times τ, what noise passes two deviations once in thirty would be most of the table.
    """
    if key.role == "own":
        weighs = spec.tables[key.table].bound == "weights"
        rows = float(noisy[0]) * (bound(spec, key.table) if weighs else 1)
        clear = 1.0 if noisy[0] < _LITTLE * noisy[1] else _CLEAR
        return max(rows, 0.0) if noisy[0] > clear * sd else 0.0
    missing, present = (float(count) if count > sd else 0.0 for count in noisy[:2])
    return missing / (missing + present) if missing else 0.0


def _fan_out(
    spec: DatabaseSpec,
    key: KeySpec,
    noisy: Floats,
    sd: float,
    sizes: Sizes,
    null: float,
    evidence: Evidence | None,
    noise: Noise,
) -> FanLaw:
    is_root = spec.tables[key.parent].own is None
    parents, off = sizes.rows[key.parent], sizes.sd.get(key.parent, 0.0)
    if not is_root:
        whole = max(float(noisy.sum()), 1.0), sd * len(noisy) ** 0.5
        parents, off = sizes.owners.get(key.parent, whole)
    starts, ends = buckets(bounds_of(key))
    if key.unique:
        ends = starts
    part = parents / sizes.best(key.parent)
    total = max(sizes.rows[key.table] - null, 0.0) * part
    more = None if evidence is None else evidence.likelihood(bucket_centres(starts, ends))
    clip = float(TOTAL_CLIP) if is_root else np.inf
    target = (total, clip, sizes.sd.get(key.table, 0.0) * part)
    known = sizes.clear(key.parent) or key.parent in sizes.drawn
    # A unit is one owner where owners are roots, or one row without an owner.
    units = sizes.units.get(key.table) if is_root and not key.nullable else None
    goal = target if known else None
    return fit(noisy, sd, starts, ends, parents, goal, more, off, noise, units)


def _public(key: KeySpec, noisy: Floats, sd: float, noise: Noise) -> KeyModel:
    total = max(float(noisy.sum()), 1.0)
    counts = denoise(noisy, sd, total, noise)
    null = float(counts[-1] / total) if key.nullable else 0.0
    return KeyModel.of(key, null=min(null, 1.0), targets=counts[:-1])
