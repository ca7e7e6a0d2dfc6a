"""Learn the pairs of columns of one table: select, measure, estimate, generate.

See "Pairs" in ``docs/method.md``; the loop is that of AIM (McKenna, Mullins, Sheldon and Miklau
2022). A candidate is a pair of columns at one of three levels of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import pi, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbench.arrays import Floats, Rng
from privbench.domain import Codes
from privbench.learning.answers import Measured, measured
from privbench.learning.denoise import SIGNIFICANT, Noise
from privbench.learning.graphical.budget import LEAST_GAP, ROUNDS, PairBudget
from privbench.learning.graphical.candidates import (
    Candidate,
    candidates,
    offered_levels,
    pair_axes,
    pairs_of,
    score_query,
)
from privbench.learning.graphical.columns import LEVELS, Variable
from privbench.learning.graphical.estimate import COUNTED, associate, rake, shrink
from privbench.learning.graphical.joint_degrees import JointDegrees
from privbench.learning.graphical.table_model import Pair, Rows, build_table_model
from privbench.learning.graphical.tilting import Tilt
from privbench.privacy import GRID, Measurement, Session
from privbench.privacy.queries import (
    Axis,
    DependenceScores,
    Histogram,
    NormedHistogram,
    PairScores,
    PublicArray,
)

#: To be selected, a pair's gap must exceed this part of the gap that noise alone would cause.
#: Double: coded Adult's 2-way divergence .0424 for .0407.
PRICE = 0.25
#: A pair is measured again at a finer level if the expected noise there is below its gap times this
#: factor: shrinkage removes most of such noise. A quarter: coded Adult's 2-way divergence .0399 for
#: .0386; half or more: the same.
FINER = 2.0
#: A table counts as changed if its distance from an earlier model, beyond sampling and noise, is at
#: least this share of its weight. Of 55 unchanged tables of seven databases (ε = 3.2) four are
#: learned anew, since their earlier models are off by more. Double: two, but a change of 19 % of a
#: pair of Adult is not detected; half: not measured.
CHANGED = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class EstimatedPair:
    """A measured pair of columns with its estimated joint table."""

    candidate: Candidate
    table: Measured  # of weights, shape (groups, groups)
    prediction: Floats  # what the model predicted before the measurement, same shape
    counts: Floats  # posterior mean of the weights
    gap: float  # half of the L1 distance of the estimate from the prediction, in weight


@dataclass
class PairLearner:
    """Learns the pairs and the model of one table, in rounds."""

    session: Session
    table: str
    variables: Sequence[Variable]  # own columns, then the context
    rows: Rows  # synthetic rows that the model is estimated and predicted on
    weight: float  # weight of the table's rows
    spread: float  # variance of a cell's sampling error over its count, of real and synthetic rows
    budget: PairBudget
    law: Noise
    # A generator for each purpose; the same in a resumed fit.
    stream: Callable[..., Rng]
    # Gives the query for a marginal over some axes, given the amount that it will get.
    marginal: Callable[[Sequence[Axis], float], Histogram | NormedHistogram]
    # Pairs of columns that are measured without selection, before all others.
    star: Sequence[tuple[int, int]] = ()
    # Cells of own columns by place, from an earlier model that is to be tested (`differs`).
    old: Mapping[int, Codes] | None = None
    degrees: JointDegrees | None = None  # joins degrees, whose pairs are no candidates then

    def __post_init__(self) -> None:
        self.found: list[EstimatedPair] = []
        self.round = 0
        self.unspent = 0.0
        self.levels = offered_levels(len(pairs_of(self.variables, self.rows.own)))
        self._step = -(-len(self.rows.weights) // COUNTED)
        if self.old is None:
            self._estimate()
        else:
            self._take({**self.rows.context, **self.old})

    def learn(self) -> None:
        """Run all rounds; budget that they do not need is left in `unspent`."""
        budget = self.budget
        left = budget.picks
        if not len(self.rows.weights):
            # If the table has no synthetic rows, nothing can be predicted or selected.
            self.unspent = budget.refine + budget.pairs * budget.first + left * budget.select
            return
        if budget.star:
            self._measure_star()
        joined = set(self.degrees.columns) if self.degrees else set()
        for number in range(ROUNDS):
            every = candidates(self.variables, self.rows.own, number)
            every = [candidate for candidate in every if not joined.issuperset(candidate.ends)]
            chosen = self._select(every, -(-left // (ROUNDS - number)))
            if not chosen:
                break
            left -= len(chosen)
            hits = self._measure(chosen)
            self._estimate()
            if 3 * hits < len(chosen):
                break
        self.unspent = budget.refine + left * (budget.first + budget.select)

    def _measure_star(self) -> None:
        """Measure the pairs of the target column, without selection."""
        sd, most = self._noise(self.budget.first), LEAST_GAP * self.weight
        chosen = [self._finest(Candidate(ends, 0), sd, most) for ends in self.star]
        self._predictions = {candidate: self._predict(candidate) for candidate in chosen}
        self._measure(chosen)
        self._estimate()

    def _noise(self, amount: float) -> float:
        """Standard deviation of the noise of a pair's cells."""
        return self.session.noise_scale(Histogram(self.table, ()), amount)

    def improve(self, shares: Sequence[Floats]) -> None:
        """Replace the shares of every own column's cells by better estimates.

        Groups stay the same.
        """
        own = zip(self.variables, shares, strict=False)
        better = [replace(item, shares=known) for item, known in own]
        self.variables = [*better, *self.variables[len(better) :]]
        self._estimate()

    def _estimate(self) -> None:
        """The model given all pairs, and synthetic rows of it."""
        pairs = [self._pair(item) for item in self.found]
        self.round += 1
        generator = self.stream("estimate", self.round)
        learned = self.variables, pairs, self.rows, generator, self.degrees
        self.model, codes = build_table_model(*learned)
        self._take(codes)

    def _take(self, codes: dict[int, Codes]) -> None:
        """Use these synthetic rows for predictions from now on."""
        self.codes = codes
        self._fine: dict[tuple[tuple[int, int], int], Floats] = {}
        self._read: dict[tuple[int, int], NDArray[np.integer[Any]]] = {}

    def _pair(self, item: EstimatedPair) -> Pair:
        i, j = item.candidate.ends
        level = item.candidate.level
        rows, columns = (self.variables[at].mass(level) for at in (i, j))
        gap = self.weight if item.candidate.ends in self.star else item.gap
        return Pair(i, j, level, rake(item.counts, rows, columns), gap)

    def _groups(self, place: int, level: int) -> NDArray[np.integer[Any]]:
        """Groups of a column for evenly spaced synthetic rows, cached for a round."""
        if (place, level) not in self._read:
            codes = self.codes[place][:: self._step]
            groups = self.variables[place].levels[level]
            self._read[place, level] = groups.astype(np.min_scalar_type(len(groups)))[codes]
        return self._read[place, level]

    def _predict(self, candidate: Candidate) -> Floats:
        """The pair table of the synthetic rows, in weight, with the released margins.

        It is counted once a round, at the finest level of the candidates, on evenly spaced rows if
        there are many. A cell that the model allows may have no rows if there are few, so each
        cell's rate has a gamma prior of shape ½ (Jeffreys), with the mean under independence.
        """
        i, j = candidate.ends
        fine = max(candidate.level, self.levels - 1)
        if (candidate.ends, fine) not in self._fine:
            shape = tuple(self.variables[at].groups(fine) for at in (i, j))
            index = self._groups(i, fine).astype(np.int64) * shape[1] + self._groups(j, fine)
            weights = self.rows.weights[:: self._step]
            counts = np.bincount(index, weights, minlength=shape[0] * shape[1]).reshape(shape)
            margins = self.variables[i].mass(fine), self.variables[j].mass(fine)
            expected = float(counts.sum()) * np.outer(*margins)
            prior = float(weights.mean()) / 2
            table = expected * (counts + prior) / (expected + prior) + 1e-6 * prior
            table = rake(table, *margins, sweeps=3)
            self._fine[candidate.ends, fine] = table * self.weight
        table = self._fine[candidate.ends, fine]
        if candidate.level == fine:
            return table
        merges = [
            np.eye(item.groups(candidate.level))[item.coarser(fine, candidate.level)]
            for item in (self.variables[i], self.variables[j])
        ]
        return np.asarray(merges[0].T @ table @ merges[1])

    def _select(self, every: Sequence[Candidate], count: int) -> list[Candidate]:
        """Candidates of largest noisy score, one for each pair of columns."""
        measured_ends = {item.candidate.ends for item in self.found}
        among = [candidate for candidate in every if candidate.ends not in measured_ends]
        if not among or not count:
            return []
        predictions = {candidate: self._predict(candidate) for candidate in among}
        public = [PublicArray.rounded(predictions[item], GRID) for item in among]
        costs = np.array([self._penalty(predictions[item]) for item in among])
        spec, label = self.session.spec, f"choice of a pair of {self.table}"
        query = score_query(spec, self.table, self.variables, among, public, costs)
        chosen: list[Candidate] = []
        ends, left = np.array([item.ends for item in among]), np.arange(len(among))
        while len(chosen) < count and len(left):
            question = replace(query, among=PublicArray(left))
            best = among[left[self.session.select(question, self.budget.select, label)]]
            chosen.append(best)
            left = left[(ends[left] != best.ends).any(axis=1)]
        self._predictions = {candidate: predictions[candidate] for candidate in chosen}
        return chosen

    def _penalty(self, prediction: Floats) -> float:
        """What is subtracted from the score of a pair with this prediction.

        It is the distance that sampling alone would show, plus `PRICE` times that of the noise.
        """
        noise = self._noise(self.budget.first) * prediction.size / sqrt(2 * pi)
        return self._sampling(prediction) + PRICE * noise

    def _sampling(self, prediction: Floats) -> float:
        return float(np.sqrt(2 / pi * prediction * self.spread).sum()) / 2

    def differs(self, noises: Sequence[float], amount: Callable[[int, float], float]) -> bool:
        """Return whether a noisy test shows that the rows differ from an earlier model.

        The largest score among the table's own columns and, at the coarse level, their pairs is
        selected and measured. If it shows no change, the same is done among pairs with columns of
        the context; their scores leave out the context's margins, which the owners' tables test.
        ``noises`` are standard deviations of the noise of one-ways, by own column. ``amount`` gives
        the budget of a choice from the number of candidates and the gap (the sensitivity of scores
        under add/remove).
        """
        pairs = candidates(self.variables, self.rows.own) if self.budget.pairs else []
        coarse = [candidate for candidate in pairs if not candidate.level]
        single = [
            Candidate((place, place), level)
            for place, item in enumerate(self.variables[: self.rows.own])
            for level in range(len(LEVELS))
            if item.modelled and item.groups(level) > 1
        ]
        inside = [*single, *(item for item in coarse if item.ends[1] < self.rows.own)]
        above = [item for item in coarse if item.ends[1] >= self.rows.own]
        return any(
            len(self.rows.weights) > 0
            and len(among) > 0
            and self._test(kind, among, noises, amount(len(among), gap))
            for kind, among, gap in ((PairScores, inside, 0.5), (DependenceScores, above, 1.0))
        )

    def _test(
        self,
        kind: type[PairScores],
        among: Sequence[Candidate],
        noises: Sequence[float],
        amount: float,
    ) -> bool:
        """Select the largest score among candidates, measure it, and judge it.

        The table counts as changed if the distance exceeds the sum of what sampling explains, of
        what the noise of learning the table anew would cause, and of `CHANGED`.
        """
        found, costs = [], []
        for candidate in among:
            (i, j), level = candidate.ends, candidate.level
            shape = self.variables[i].groups(level), self.variables[j].groups(level)
            if i == j:
                prediction = np.diag(self.variables[i].mass(level)) * self.weight
                noise = 0.0
            else:
                prediction = self._predict(candidate)
                noise = self._noise(self.budget.first) * prediction.size
            for place, groups in {i: shape[0], j: shape[1]}.items():
                if place < self.rows.own:
                    # The noise of a group is the sum of the noise of its cells.
                    noise += noises[place] * sqrt(groups * len(self.variables[place].shares))
            found.append(PublicArray.rounded(prediction, GRID))
            costs.append(self._sampling(prediction) + noise / sqrt(2 * pi) + CHANGED * self.weight)
        spec, penalties = self.session.spec, np.array(costs)
        query = score_query(spec, self.table, self.variables, among, found, penalties, kind)
        every = replace(query, among=PublicArray(np.arange(len(among))))
        label = f"what has changed most in {self.table}"
        best = self.session.select(every, amount, label)
        selected = replace(query, among=PublicArray(np.array([best])))
        label = f"how much has changed in {self.table}"
        ((noisy, sd),) = measured(self.session, [Measurement(selected, amount, label)])
        return bool(noisy[0] > SIGNIFICANT * sd)

    def _ask(self, measured_pairs: Sequence[tuple[Candidate, float]], label: str) -> list[Measured]:
        """Noisy pair tables of weights."""
        questions = [
            Measurement(self.marginal(pair_axes(self.variables, candidate), amount), amount, label)
            for candidate, amount in measured_pairs
        ]
        answers = zip(measured(self.session, questions), measured_pairs, strict=True)
        return [
            answer.in_weight(self._predict(candidate))
            if isinstance(answer.query, NormedHistogram)
            else answer
            for answer, (candidate, _) in answers
        ]

    def _measure(self, chosen: Sequence[Candidate]) -> int:
        """Measure pairs; keep those that differ from the model, and all with the target column."""
        amounts = [(candidate, self.budget.first) for candidate in chosen]
        answers = self._ask(amounts, f"pair of {self.table}")
        hits = 0
        for candidate, table in zip(chosen, answers, strict=True):
            prediction = self._predictions[candidate]
            if self._significant(table.counts, table.sd, prediction) or candidate.ends in self.star:
                hits += 1
                shrunk = shrink(table.counts, table.sd, prediction, self.law)
                gap = float(np.abs(shrunk - prediction).sum()) / 2
                guess = self._associated(candidate, table, prediction)
                counts = shrink(table.counts, table.sd, guess, self.law)
                self.found.append(EstimatedPair(candidate, table, guess, counts, gap))
        return hits

    def _associated(self, candidate: Candidate, table: Measured, prediction: Floats) -> Floats:
        scores = (self.variables[at].scores(candidate.level) for at in candidate.ends)
        return associate(table.counts, table.sd, prediction, *scores)

    def _significant(self, noisy: Floats, sd: float, prediction: Floats) -> bool:
        """Whether chi-squared rejects the prediction with the noisy table's own margins."""
        rows, columns = (np.maximum(noisy.sum(axis=axis), 1e-6) for axis in (1, 0))
        expected = rake(prediction, rows, columns)
        chi = float(((noisy - expected) ** 2 / (sd * sd + expected * self.spread)).sum())
        free = (noisy.shape[0] - 1) * (noisy.shape[1] - 1)
        # The fourth moment of Laplace noise is twice as large: so is the variance of its square.
        scatter = sqrt((5.0 if self.law == "laplace" else 2.0) * free)
        return bool(chi > free + SIGNIFICANT * scatter)

    def refine(self, amount: float) -> None:
        """Measure the kept pairs once more, at a finer level if that gains more than its noise."""
        sd = self._noise(amount / len(self.found))
        finer = [self._finest(item.candidate, sd, FINER * item.gap) for item in self.found]
        shares = np.array([self._cells(candidate) for candidate in finer]) ** (2 / 3)
        amounts = (amount * shares / shares.sum()).tolist()
        finer_amounts = list(zip(finer, amounts, strict=True))
        answers = zip(
            self.found, finer, self._ask(finer_amounts, f"pair of {self.table}, again"), strict=True
        )
        self.found = [self._again(*each) for each in answers]
        self._estimate()

    def marginals(self) -> list[tuple[Tilt, Measured]]:
        """Return the noisy tables of the kept pairs of own columns."""
        found = []
        for item in self.found:
            ends, level = item.candidate.ends, item.candidate.level
            if ends[1] < self.rows.own:
                groups = tuple(self.variables[at].levels[level] for at in ends)
                found.append((Tilt(ends, groups, np.zeros(item.counts.shape)), item.table))
        return found

    def _cells(self, candidate: Candidate) -> int:
        return prod(self.variables[at].groups(candidate.level) for at in candidate.ends)

    def _finest(self, finest: Candidate, sd: float, most: float) -> Candidate:
        """The pair at the finest level whose expected noise is below ``most``, in weight."""
        while finest.level + 1 < len(LEVELS):
            next_level = replace(finest, level=finest.level + 1)
            if sd * self._cells(next_level) / sqrt(2 * pi) > most:
                break
            finest = next_level
        return finest

    def _again(self, old: EstimatedPair, new: Candidate, table: Measured) -> EstimatedPair:
        """Combine two measurements of a pair to one."""
        if new.level == old.candidate.level:
            table = old.table.join(table)
            return replace(
                old, table=table, counts=shrink(table.counts, table.sd, old.prediction, self.law)
            )
        prediction = self._associated(new, table, self._predict(new))
        counts = shrink(table.counts, table.sd, prediction, self.law)
        gap = float(np.abs(counts - prediction).sum()) / 2
        return EstimatedPair(new, table, prediction, counts, max(gap, old.gap))
