"""Checks by record and replay: they find values, draws and models that contradict the claims.

Unlike an attack, these three checks do not depend on luck. Every exact value of a fit is compared
with its value on neighbours; every draw is compared with the distribution that its event states;
and the model of a neighbour that was given the same draws is compared with the first model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, zip_longest
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from privbench.pipeline.progress import Reporter
from privbench.privacy import Sensitivity
from privbench.privacy.accountant import epsilon_for
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.mechanisms import MECHANISMS
from privbench.privacy.release import Listed
from privbench.privacy.session import TraceStep
from privbench.rng import generator
from privbench_lab.audit.recording import CELLS, Bench, Call, Differs, Recording, same_model
from privbench_lab.neighbours.stability import (
    SLACK,
    Change,
    Unit,
    all_units,
    change,
    judge,
    neighbour_pairs,
    remove_unit,
    telling_units,
    worst_hub,
)

#: Probability of a false alarm in all checks of noise in one fit together. Twice or half of it
#: changes the least missing noise that is detected by a percent or two.
ALARM = 1e-6
#: From this scale on, in grid units, distributions are compared as if they were continuous; draws
#: of smaller scales are not compared. At 4 a jitter of ±½ changes the variance by half a percent.
SMALLEST = 4.0
#: From this scale on two draws that agree in six digits are the same draw.
_FINE = 2.0**20


@dataclass(slots=True)
class Row:
    """One event: the claimed sensitivity, and the largest change between neighbours.

    ``claimed`` and ``observed`` are the norms L1, L2 and L∞, in units of which a count of 1 has
    ``unit``; ``observed`` is the largest over the neighbours. ``ratio`` is the largest ratio of
    observed to claimed, L0 included where it is claimed. ``broken`` names the claims that do not
    hold.
    """

    label: str
    kind: str
    table: str
    mechanism: str
    unit: int
    claimed: tuple[float, float, float]
    observed: tuple[float, float, float] = (0.0, 0.0, 0.0)
    ratio: float = 0.0
    broken: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Replay:
    """The result of all replays together.

    ``rows`` has an item for every event of the first fit. ``loss`` is the largest privacy loss ε of
    a tested pair, by the observed changes, summed over all events. ``cells`` draws were compared
    with their distributions; ``skipped`` were not (choices, tiny scales, labels near their
    threshold). ``noise`` is the probability of noise this small or smaller if all distributions are
    as stated.
    """

    rows: list[Row]
    neighbours: int = 0
    loss: float = 0.0
    findings: list[str] = field(default_factory=list)
    cells: int = 0
    noise: float = 1.0
    skipped: int = 0

    def find(self, line: str) -> None:
        """Add a finding, once."""
        if line not in self.findings:
            self.findings.append(line)


def replay(bench: Bench, reporter: Reporter, *, most: int, seed: int = 0) -> Replay:
    """Record a fit, test its draws against their distributions, and fit neighbours with the draws.

    Half of the neighbours are made from the rows as they are, half from the rows without the unit
    to which most references lead, so that both sides have references whose target is missing.
    ``most`` is the number of neighbours; ``seed`` chooses among equal units.
    """
    found, rows = Replay([]), bench.rows
    for number in range(min(most, 2)):
        side = replace(bench, rows=rows)
        recording = side.record()
        found.rows = found.rows or [_row(step) for step in recording.steps]
        _noise(recording, found)
        chosen = _units(rows, most - most // 2 if number == 0 else most // 2, seed + number)
        _round(side, recording, chosen, found, reporter)
        hub = worst_hub(rows)
        if hub is None:
            break
        rows = remove_unit(rows, *hub)
    return found


def _units(rows: PrivateDatabase, count: int, seed: int) -> list[Unit]:
    """Units that are likely to break a claim, two of each root table in turn; then others."""
    everyone = list(all_units(rows))
    picked = np.random.default_rng(seed).permutation(len(everyone))[:count]
    telling = [list(group) for _, group in groupby(telling_units(rows, 1), itemgetter(0))]
    pairs = [[units[at : at + 2] for at in range(0, len(units), 2)] for units in telling]
    turns = (unit for turn in zip_longest(*pairs) for pair in turn if pair for unit in pair)
    return list(dict.fromkeys(chain(turns, (everyone[at] for at in picked.tolist()))))[:count]


def _row(step: TraceStep) -> Row:
    event, claim = step.event, step.event.sensitivity
    norms = (float(claim.l1), float(claim.l2), float(claim.linf))
    return Row(event.label, event.kind, event.table, event.mechanism, event.unit, norms)


def _round(
    bench: Bench, recording: Recording, chosen: Sequence[Unit], found: Replay, reporter: Reporter
) -> None:
    known = [(bench.rows, recording)]
    for root, *sides in neighbour_pairs(bench.rows, chosen):
        found.neighbours += 1
        reporter.advance("fits of neighbours", found.neighbours)
        try:
            # Consecutive pairs share one side, which is fitted only once.
            known = [
                next((pair for pair in known if pair[0] is side), None)
                or (side, bench.replay(recording, side))
                for side in sides
            ]
            _compare(bench, recording, root, [fit for _, fit in known], found)
        except Differs as error:
            found.find(f"a unit of {root} changes the measurements: {error}")


def _compare(
    bench: Bench, recording: Recording, root: str, sides: Sequence[Recording], found: Replay
) -> None:
    """Compare fits with the same noise: statistics with their claims, models for equality."""
    total = 0.0
    for fit in sides:
        for part in same_model(recording.model, fit.model):
            found.find(f"a unit of {root} changes the model beside its mechanisms: {part}")
    for place, step in enumerate(recording.steps):
        before, after = (fit.statistic(place) for fit in sides)
        moved, label = change(before, after), step.event.label
        total += _price(step, moved) if moved.l1 else 0.0
        row = found.rows[place] if place < len(found.rows) else _row(step)
        if row.label == label:
            norms = (float(moved.l1), moved.l2, float(moved.linf))
            row.observed = tuple(map(max, row.observed, norms))  # type: ignore[assignment]
        for reason, ratio in judge(step.query, recording.session.spec, root, before, after):
            row.ratio = max(row.ratio, ratio)
            if ratio > 1 + (SLACK if reason == "l2" else 0):
                row.broken += [] if reason in row.broken else [reason]
                found.find(f"{label}: a unit of {root} moves it {ratio:.4g} times as far as its "
                           f"claim in {reason}")  # fmt: skip
    if recording.session.accounting == "zcdp" and total:
        total = epsilon_for(total, bench.read.accountant.delta_conversion)
    found.loss = max(found.loss, total)
    if total > bench.read.accountant.requested.epsilon * (1 + SLACK):
        found.find(f"a unit of {root} loses ε = {total:.4g} by what it moves, more than is claimed")


def _price(step: TraceStep, moved: Change) -> float:
    """ε or ρ of an event, computed from the observed instead of the claimed sensitivity."""
    claim = Sensitivity(moved.l1, min(moved.l2, float(moved.l1)), moved.linf, moved.l0 or 1)
    mechanism = MECHANISMS[step.event.mechanism]
    return mechanism.price(claim, step.event.scale, step.event.threshold).amount


def _noise(recording: Recording, found: Replay) -> None:
    """Compare the draws and the released values with the noise that the events state."""
    for line in _stated(recording):
        found.find(line)
    found_here = {stream: residual(call) for stream, call in recording.calls.items()}
    left = {stream: part for stream, part in found_here.items() if part is not None}
    sizes = {stream: _size(recording.calls[stream], part) for stream, part in left.items()}
    found.skipped += len(found_here) - len(left)
    found.cells += sum(map(len, left.values()))
    found.noise = min(found.noise, _chance(sizes.values()))
    if found.noise < ALARM:
        found.find(f"all draws together are too small for their laws (chance {found.noise:.1e})")
    for stream, size in sizes.items():
        if _chance([size]) < ALARM / len(sizes):
            found.find(f"{_label(recording, stream)}: its noise is too small for its law")
    for one, other in _repeated(recording.calls, left):
        names = _label(recording, one), _label(recording, other)
        found.find(f"{names[0]} and {names[1]}: the same draw was used twice")


def _stated(recording: Recording) -> Iterator[str]:
    """Find draws that were altered, have another scale than stated, or belong to no event."""
    streams = set(recording.calls)
    for place, step in enumerate(recording.steps):
        mine = [name for name in (str(place), f"{place}{CELLS}") if name in streams]
        calls, label = [recording.calls[name] for name in mine], step.event.label
        streams -= set(mine)
        if any(call.scale != step.event.scale for call in calls):
            yield f"{label}: noise was drawn at another scale than its event states"
        drawn: Any = [call.drawn for call in calls]
        if len(drawn) == 2:
            drawn = [Listed(tuple(drawn[1]), tuple(drawn[0]), tuple(drawn[0].values()))]
        if len(drawn) != 1 or not np.all(np.asarray(step.result == drawn[0])):
            yield f"{label}: what was released is not what a mechanism drew"
    if streams:
        yield f"{len(streams)} draws belong to no event of the ledger"


def residual(call: Call) -> NDArray[np.float64] | None:
    """Noise (drawn minus exact values) divided by its scale, jittered by half a grid unit.

    None for a choice, for a scale below `SMALLEST`, and for labels whose count is so near the
    threshold that the noise decides whether they are released.
    """
    if call.scale < SMALLEST or isinstance(call.drawn, int):
        return None
    if isinstance(call.drawn, dict):
        exact, least = call.exact, (call.threshold or 0) + 40 * call.scale
        assert isinstance(exact, dict)
        sure = [name for name in call.drawn if exact.get(name, 0) > least]
        left = np.array([call.drawn[name] - exact[name] for name in sure], np.float64)
    else:
        left = (call.drawn - np.asarray(call.exact)).ravel().astype(np.float64)
    if not left.size:
        return None
    return (left + generator(None).uniform(-0.5, 0.5, left.size)) / call.scale


def _size(call: Call, left: NDArray[np.float64]) -> tuple[float, int]:
    """A sum that has a χ² distribution, and its degrees of freedom.

    For Laplace noise 2·|x|/s is exponential with mean 2, which is χ² with 2 degrees; for Gaussian
    noise (x/σ)² is χ² with 1.
    """
    if call.mechanism.loss == "epsilon":
        return float(2.0 * np.abs(left).sum()), 2 * left.size
    return float((left**2).sum()), left.size


def _chance(parts: Iterable[tuple[float, int]]) -> float:
    """Probability of χ² sums as small as these together, by their degrees of freedom; 1 if none."""
    sums, degrees = zip(*parts, strict=True) if parts else ((), ())
    return float(chi2.cdf(sum(sums), sum(degrees))) if degrees else 1.0


def _repeated(
    calls: Mapping[str, Call], residuals: Mapping[str, NDArray[np.float64]]
) -> Iterator[tuple[str, str]]:
    """Draws whose first two numbers equal those of an earlier draw, whatever the scales."""
    seen: dict[tuple[float, ...], str] = {}
    for stream, left in residuals.items():
        if len(left) < 2 or calls[stream].scale < _FINE:
            continue
        beginning = tuple(np.round(left[:2], 5).tolist())
        if beginning in seen:
            yield seen[beginning], stream
        seen.setdefault(beginning, stream)


def _label(recording: Recording, stream: str) -> str:
    place = int(stream.split()[0])
    return recording.steps[place].event.label if place < len(recording.steps) else "a draw"
