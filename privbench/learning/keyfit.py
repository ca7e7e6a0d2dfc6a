"""Measuring and fitting foreign keys: which queries, and what their answers become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import lsq_linear

from privbench.learning.denoise import Floats, Noise, denoise
from privbench.learning.fanfamily import bucket_centres, posterior
from privbench.learning.fanout import FanLaw, constant, fit, last_clear, law_from_counts
from privbench.learning.keys import KeyModel
from privbench.learning.unitrows import Evidence
from privbench.privacy import DatabaseSpec, KeySpec, Query
from privbench.privacy.queries import FAN_OUT_BOUNDS, FanIn, FanOut, Presence, PublicTargets
from privbench.privacy.queries.fanin import levels
from privbench.privacy.units import bound

#: Clip of the totals of owned tables (P17).
TOTAL_CLIP = 100
#: Share of a nullable key's amount that goes to its NULL share.
_NULL_SHARE = 0.15
#: The same where units are few.
_FEW_NULL_SHARE = 0.6
#: How far the number of references that are kept may be off, if rows tell it and if they do not.
_OFF, _UNKNOWN = 0.1, 0.5
_NULLS, _FANS = "NULL share", "fan-out"
#: Rows without an owner are few against the others below this share.
_LITTLE = 0.25
#: Weights of targets that are referred to, against those of other rows; likely as they are large.
_SHADES = 0.5 ** np.arange(7.0)
#: How much likelier even references are beforehand (`posterior`), and targets against noise below
#: which a bucket tells nothing by itself.
_EVEN, _LOST = 1.0, 40.0
#: Targets of which half of those that would else have no references have some.
_ALL_USED = 6.0
_STARTS = np.array(FAN_OUT_BOUNDS, np.int64)
_ENDS = np.append(_STARTS[1:] - 1, 2 * _STARTS[-1])

#: Asks for a measurement: (query, amount, label) → (noisy values, standard deviation).
Measure = Callable[[Query, float, str], tuple[Floats, float]]
#: What was measured of a key: query, noisy values and standard deviation, by what it asks.
Answers = dict[str, tuple[Query, Floats, float]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Noisy rows per table and how noisy they are.

    Attributes:
        rows: Rows per table, floored at 1.
        sd: Standard deviation of the noise per table; missing means unknown, taken as 0.
        weights: Released weight of the rows per table; missing means their number.
        drawn: Rows of owned tables as their synthetic owners have them.
        owners: Weight of the rows of owned tables that own others, as far as fan-outs tell it.
    """

    rows: Mapping[str, float]
    sd: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    drawn: Mapping[str, float] = field(default_factory=dict)
    owners: Mapping[str, float] = field(default_factory=dict)

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


@dataclass(frozen=True, slots=True)
class Ask:
    """One query of a key with its part of the key's amount."""

    what: str
    query: Query
    part: float

    def label(self, key: KeySpec) -> str:
        """Label of the event."""
        return f"{self.what} of {key.table}.{key.name}"


def asks(
    key: KeySpec, public_rows: Mapping[str, int], *, own: bool = False, few: bool = False
) -> list[Ask]:
    """The queries of one key; public, the same whatever the rows.

    Args:
        key: The key.
        public_rows: Exact rows of public tables.
        own: Whether references into the row's own unit are told apart (REF keys).
        few: Whether units are few against the noise, so that most goes to the NULL share of a REF
            key.
    """
    if key.role == "public":
        return [Ask("targets", PublicTargets(key, max(public_rows.get(key.parent, 0), 0)), 1.0)]
    found = [Ask(_FANS, FanOut(key, bounds_of(key)), 1.0)]
    if key.role == "ref":
        found = [Ask("fan-in", FanIn(key, outside=own), 1.0)] if not key.unique else []
    if not key.nullable and not own:
        return found
    null = _FEW_NULL_SHARE if few and key.role == "ref" else _NULL_SHARE
    rest = 1.0 - null if found else 1.0
    main = [Ask(ask.what, ask.query, ask.part * rest) for ask in found]
    return [*main, Ask(_NULLS, Presence(key, own), 1.0 - rest if found else 1.0)]


def measure_links(
    spec: DatabaseSpec,
    key: KeySpec,
    amount: float,
    measure: Measure,
    total: float,
    noise: Noise,
    *,
    own: bool,
    few: bool = False,
) -> Floats:
    """Where references lead: shares of rows without one, into other units, into their own.

    Args:
        spec: What is public.
        key: A REF key that may be NULL, or whose targets may be in the row's own unit.
        amount: What may be spent on the key.
        measure: Asks the session.
        total: Released weight of all rows.
        noise: Law of the noise.
        own: Whether the third share is measured; else the shape is (2,).
        few: See `asks`.
    """
    ask = next(ask for ask in asks(key, {}, own=own, few=few) if ask.what == _NULLS)
    noisy, sd = measure(ask.query, amount * ask.part, ask.label(key))
    return link_shares(noisy, sd, total, noise, nullable=key.nullable)


def link_shares(noisy: Floats, sd: float, total: float, noise: Noise, *, nullable: bool) -> Floats:
    """Posterior mean of the shares of a few cells of known sum.

    Every share of a grid is as likely as any other beforehand, but that no row has none, or that
    none stays inside, is as likely as all other shares of theirs together.

    Args:
        noisy: Noisy counts of rows without a reference, outside and, maybe, inside; shape (2,) or
            (3,).
        sd: Standard deviation of the noise.
        total: Released sum, above 0.
        noise: Law of the noise.
        nullable: Whether there may be rows without a reference.

    >>> link_shares(np.array([30.0, 70.0]), 1.0, 100.0, "laplace", nullable=True).round(2).tolist()
    [0.3, 0.7]
    """
    grid = np.linspace(0.0, 1.0, 101)
    none = grid if nullable else grid[:1]
    inside = grid if len(noisy) == 3 else grid[:1]
    first, third = (part.ravel() for part in np.meshgrid(none, inside, indexing="ij"))
    held = first + third <= 1.0 + 1e-9
    shares = np.stack([first, 1.0 - first - third, third], axis=1)[held]
    spikes = (shares[:, [0, 2]] == 0.0).sum(axis=1) * np.log(len(grid))
    # Shares are known no better than the grid tells.
    spread = max(sd, total / len(grid))
    off = np.abs(noisy - total * shares[:, : len(noisy)]) / spread
    logs = spikes - (np.sqrt(2.0) * off if noise == "laplace" else 0.5 * off**2).sum(axis=1)
    weights = np.exp(logs - logs.max())
    found = np.maximum(weights @ shares[:, : len(noisy)] / weights.sum(), 0.0)
    return np.asarray(found / found.sum())


def measure_key(
    key: KeySpec,
    amount: float,
    measure: Measure,
    public_rows: Mapping[str, int],
    links: Floats | None = None,
    *,
    few: bool = False,
) -> Answers:
    """Measure what `fit_key` fits a key to.

    Args:
        key: The key.
        amount: What may be spent on it.
        measure: Asks the session.
        public_rows: Exact rows of public tables.
        links: What `measure_links` gave, if that was asked before.
        few: See `asks`.
    """
    own = links is not None and len(links) == 3
    return {
        ask.what: (ask.query, *measure(ask.query, amount * ask.part, ask.label(key)))
        for ask in asks(key, public_rows, own=own, few=few)
        if links is None or ask.what != _NULLS
    }


def parents_of(key: KeySpec, answers: Answers) -> tuple[float, float] | None:
    """Weight of a key's owners as its fan-out tells it, and the variance of that.

    Every owner stands in one bucket, so that the buckets' sum is one more noisy total.
    """
    if key.role != "own" or _FANS not in answers:
        return None
    _, noisy, sd = answers[_FANS]
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
    if "targets" in answers:
        return _public(key, *answers["targets"][1:], noise)
    if "fan-in" in answers:
        query, noisy, sd = answers["fan-in"]
        inside = links[2] if links is not None and own else 0.0
        linked = sizes.best(key.table) * (1.0 - null - inside)
        linked = linked if outside is None else max(outside, 1.0)
        targets = sizes.weight(key.parent)
        off = _UNKNOWN if outside is None else _OFF
        most = linked * (1.0 + _OFF) + 3 * sizes.sd.get(key.table, 0.0)
        size = (sizes.rows[key.parent], targets)
        shades = _SHADES if spec.tables[key.parent].own else _SHADES[:1]
        law = _fan_in(query, spec, noisy, sd, size, (linked, off * linked), most, shades)
        return KeyModel.of(key, null=null, law=law)
    if _FANS in answers:
        law = _fan_out(spec, key, *answers[_FANS][1:], sizes, null, evidence)
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
    return _null(spec, key, *answers[_NULLS][1:]) if _NULLS in answers else unasked


def ownerless(spec: DatabaseSpec, key: KeySpec, answers: Answers) -> tuple[float, float] | None:
    """Rows without an owner by their weighted count, and the standard deviation of that."""
    if _NULLS not in answers:
        return None
    _, noisy, sd = answers[_NULLS]
    rows = bound(spec, key.table) if spec.tables[key.table].bound == "weights" else 1
    return float(noisy[0]) * rows, sd * rows


def bounds_of(key: KeySpec) -> tuple[int, ...]:
    """Lower ends of the buckets of a fan-out."""
    return (0, 1) if key.unique else FAN_OUT_BOUNDS


def _null(spec: DatabaseSpec, key: KeySpec, noisy: Floats, sd: float) -> float:
    """Rows without an owner (OWN), or the share of rows without a reference.

    A row without an owner is a unit of its own and weighs 1/τ (1 under truncation), so the weighted
    count tells their number. Below one standard deviation it is taken as none: most keys that may
    be NULL seldom are. Below two it is, where it would add much to a table of few owned rows.
    """
    if key.role == "own":
        weighs = spec.tables[key.table].bound == "weights"
        rows = float(noisy[0]) * (bound(spec, key.table) if weighs else 1)
        clear = 1.0 if noisy[0] < _LITTLE * noisy[1] else 2.0
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
) -> FanLaw:
    is_root = spec.tables[key.parent].own is None
    told = sizes.owners.get(key.parent, max(float(noisy.sum()), 1.0))
    parents = sizes.rows[key.parent] if is_root else told
    starts = np.array(bounds_of(key), np.int64)
    ends = np.array([0, 1], np.int64) if key.unique else _ENDS
    part = parents / sizes.best(key.parent)
    total = max(sizes.rows[key.table] - null, 0.0) * part
    more = None if evidence is None else evidence.likelihood(bucket_centres(starts, ends))
    clip = float(TOTAL_CLIP) if is_root else np.inf
    target = (total, clip, sizes.sd.get(key.table, 0.0) * part)
    known = sizes.clear(key.parent) or key.parent in sizes.drawn
    return fit(noisy, sd, starts, ends, parents, target if known else None, more)


def _public(key: KeySpec, noisy: Floats, sd: float, noise: Noise) -> KeyModel:
    total = max(float(noisy.sum()), 1.0)
    counts = denoise(noisy, sd, total, noise)
    null = float(counts[-1] / total) if key.nullable else 0.0
    return KeyModel.of(key, null=min(null, 1.0), targets=counts[:-1])


def _fan_in(
    query: Query,
    spec: DatabaseSpec,
    noisy: Floats,
    sd: float,
    size: tuple[float, float],
    kept: tuple[float, float],
    most: float,
    shades: Floats,
) -> FanLaw:
    """Deconvolve an interpolated histogram (P21) into a law over numbers of references.

    Non-negative least squares over octaves of counts: the released buckets at their precision, the
    number of targets, the number of references that are kept (with its standard deviation), and
    within its own size a prior: the posterior mean of a family of laws, since hubs are too few to
    be seen in any one bucket. Targets may weigh less than other rows (a few people may own all of
    them), so that fewer are seen than there are. No target is referred to more often than ``most``,
    what there is to refer: a bucket of more would, once drawn, take most references of all.
    """
    if not isinstance(query, FanIn):
        raise TypeError("a fan-in law is fitted to a fan-in query")
    targets, weight = size
    design = _interpolation(query.scale(spec), query.buckets) * (weight / targets)
    linked, off = kept[0], max(kept[1], 1.0)
    # Shapes are weighed at one scale: a mixture of small laws and large ones would have hubs.
    goal = (linked, np.inf, min(off, _OFF * linked))
    beliefs = np.log(shades)
    told = (shades, beliefs)
    prior = targets * posterior(noisy, sd, _STARTS, _ENDS, targets, goal, design, told, _EVEN)
    seen = design @ prior
    # Of few targets none is left out, unless that is seen: of two shops each has staff.
    prior[0] *= targets / (targets + _ALL_USED)
    prior *= targets / prior.sum()
    off_by = [np.abs(noisy - shade * seen).sum() * np.sqrt(2.0) / sd for shade in shades]
    design = design * shades[int(np.argmax(beliefs - off_by))]
    centre = np.sqrt(np.maximum(_STARTS, 0) * np.maximum(_ENDS, 0).astype(float))
    # Hubs are few against the noise: what a bucket may hold beyond the prior falls with its size.
    # Where the targets themselves are lost in noise, nothing is held beyond it.
    far = min(sd, weight * weight / (_LOST * sd))
    loose = np.maximum(prior, far * np.minimum(1.0, linked / targets / np.maximum(centre, 1.0)))
    # A bucket that stands out far beyond the others is noise.
    reach = np.arange(len(noisy)) < last_clear(np.append(0.0, noisy), sd)
    clear = design.T @ np.where(reach, np.maximum(noisy - 2 * sd, 0.0), 0.0)
    loose = np.maximum(np.maximum(loose, clear), 1e-3)
    rows = np.vstack(
        [
            design / sd,
            np.ones((1, len(_STARTS))) * 1e3 / targets,
            centre[None, :] / off,
            np.diag(1.0 / loose),
        ]
    )
    sides = np.concatenate([noisy / sd, [1e3], [linked / off], prior / loose])
    # In units of the prior all unknowns are near 1, whatever the size of the tables.
    few = max(1, int(np.searchsorted(_STARTS, most, side="right")))
    counts = np.zeros(len(_STARTS))
    counts[:few] = lsq_linear((rows * loose)[:, :few], sides, bounds=(0.0, np.inf)).x * loose[:few]
    prior[few:] = 0.0
    return law_from_counts(counts if counts.sum() > 0 else prior, _STARTS, _ENDS)


def _interpolation(scale: int, buckets: int) -> Floats:
    """How much a target of every octave of counts adds to every released bucket, on average."""
    whole, part = levels(scale, buckets)
    design = np.zeros((buckets, len(_STARTS)))
    for octave, (first, last) in enumerate(zip(_STARTS, _ENDS, strict=True)):
        counts = np.unique(np.linspace(first, last, 64).astype(np.int64))
        m = np.minimum(counts, len(whole) - 1)
        upper = part[m] / 2**30
        for cell, weight in ((whole[m], 1 - upper), (whole[m] + 1, upper)):
            inside = (cell >= 1) & (cell <= buckets)
            np.add.at(design[:, octave], cell[inside] - 1, weight[inside] / len(counts))
    return design
