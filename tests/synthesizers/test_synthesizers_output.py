"""The output distribution of whole tiny fits, on neighbours, within e^ε.

A fit is a tree: each answer decides what is asked next. `Scripted` gives chosen answers and keeps
the exact statistic and the mechanism's scale of each, from which follow the answer's exact
log-probability under the documented law (`test_privacy_mechanisms` holds OpenDP to it), and the
least upper bound of the log-ratio over every answer that could have been given in its place. So a
path of answers on both neighbours shows that they are asked the same questions, and that neither
the path's probability nor that of any path beside it differs by more than e^ε.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from itertools import count, product

import numpy as np
import pytest
from private_tables import single_table, started

from privbench.domain import Domain
from privbench.learning.graphical.select import PairLearner
from privbench.privacy import Relation
from privbench.privacy.queries import PairScores
from privbench.privacy.query import GRID
from privbench.synthesizers.graphical import GraphicalSynthesizer

SLACK = 1e-9
DOMAINS = {"kind": Domain(2, nullable=True), "bit": Domain(2), "step": Domain(3, ordered=True)}
#: A database and its neighbours: rows of (kind, bit, step); 2 is the kind's NULL.
PAIRS = {
    "add-remove": [
        ([(0, 1, 2), (1, 0, 0)], [(0, 1, 2)]),
        ([(2, 1, 0)], []),
        ([(0, 0, 0), (0, 0, 0), (1, 1, 2)], [(0, 0, 0), (0, 0, 0)]),
    ],
    "replace": [([(0, 1, 2), (1, 0, 0)], [(0, 1, 2), (2, 1, 1)]), ([(2, 1, 0)], [(0, 0, 2)])],
}
NEIGHBOURS = pytest.mark.parametrize("neighbours", list(PAIRS))


def build(rows, columns, neighbours):
    values = np.array(rows, np.int64).reshape(-1, len(DOMAINS))
    whole = dict(zip(DOMAINS, zip(values.T, DOMAINS.values(), strict=True), strict=True))
    return single_table(
        {name: whole[name] for name in list(DOMAINS)[:columns]}, Relation(neighbours)
    )


@pytest.fixture(autouse=True)
def no_disk(monkeypatch):
    """Hundreds of ledgers: that they reach the disk is shown elsewhere."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


# The laws of the two mechanisms


def log_laplace(answer, exact, scale):
    """Log-probability of a discrete Laplace answer: P(k) = tanh(1/2s) · exp(−|k|/s) a cell."""
    off = float(np.abs(answer - exact).sum())
    return answer.size * math.log(math.tanh(0.5 / scale)) - off / scale


def log_choice(index, scores, scale):
    """Log-probability that a score with exponential noise of mean ``scale`` is the largest.

    With gaps gⱼ = (max − qⱼ)/s it is e^(−gᵢ) · ∫₀¹ Πⱼ≠ᵢ (1 − u·e^(−gⱼ)) du, a polynomial.
    """
    gaps = (int(scores.max()) - scores).astype(np.float64) / scale
    factors = [np.array([-math.exp(-gap), 1.0]) for gap in np.delete(gaps, index)]
    whole = np.polyint(reduce(np.polymul, factors, np.ones(1)))
    return float(-gaps[index] + math.log(np.polyval(whole, 1.0)))


# Fits with chosen answers


@dataclass
class Asked:
    """One question of a fit: the exact statistic, the mechanism's scale, the answer given."""

    exact: np.ndarray
    scale: float
    answer: np.ndarray | int

    @property
    def log_probability(self):
        if isinstance(self.answer, int):
            return log_choice(self.answer, self.exact, self.scale)
        return log_laplace(self.answer, self.exact, self.scale)


@dataclass
class Scripted:
    """A noise source that gives chosen answers; NOT PRIVATE.

    `choose` gives the answer from the number of the question, its exact statistic and scale;
    `factor` is ½ for a mutant that draws too little noise.
    """

    choose: Callable[[int, np.ndarray, float, bool], np.ndarray | int]
    factor: float = 1.0
    asked: list[Asked] = field(default_factory=list)
    private = False

    def draw(self, method, exact, stream):
        assert method.threshold is None, "a fit of settled domains releases no labels"
        selection = method.mechanism.name == "noisy_max"
        assert selection or method.mechanism.name == "discrete_laplace"
        scale = method.scale * self.factor
        answer = self.choose(len(self.asked), exact, scale, selection)
        self.asked.append(Asked(exact.copy(), scale, answer))
        return answer if selection else answer.astype(np.int64).reshape(exact.shape)


FOLDERS = count()


def run(database, epsilon, noise, folder):
    """A whole fit; its steps and the model."""
    begun = started(database, folder / str(next(FOLDERS)), epsilon, noise=noise, share=0.1)
    session, model = begun[0], GraphicalSynthesizer().fit(*begun)
    session.close()
    return session.trace, model


def compare(first, second, epsilon, choose, folder, factor=1.0):
    """Of a path on both neighbours the log-ratio, the bound of any answers', and its length."""
    one = Scripted(choose, factor)
    trace, model = run(first, epsilon, one, folder)
    other = Scripted(lambda number, *_: one.asked[number].answer, factor)
    again, twin = run(second, epsilon, other, folder)
    queries = [[step.query for step in steps] for steps in (trace, again)]
    assert queries[0] == queries[1], "the next question depends on more than the answers so far"
    same_model(model, twin)
    sides = list(zip(one.asked, other.asked, strict=True))
    assert all(a.scale == b.scale for a, b in sides)
    ratio = sum(a.log_probability - b.log_probability for a, b in sides)
    return ratio, sum(bound(a, b) for a, b in sides), len(sides)


def bound(one, other):
    """The largest |log-ratio| of any answer to a question."""
    if not isinstance(one.answer, int):
        return float(np.abs(one.exact - other.exact).sum()) / one.scale
    return max(
        abs(log_choice(k, one.exact, one.scale) - log_choice(k, other.exact, other.scale))
        for k in range(one.exact.size)
    )


def same_model(one, other):
    header, arrays = one.to_state()
    again, copies = other.to_state()
    assert header == again
    assert all(np.array_equal(arrays[name], copies[name]) for name in arrays)


#: Answers to a measurement: the statistic itself, far below, far above, in noise scales.
OFFSETS = (0.0, -4.0, 4.0)


def on_grid(path, total):
    """Answers by the numbers of a path: an offset for measurements, an index for selections."""

    def choose(number, exact, scale, selection):
        step = path[number] if number < len(path) else 0
        if selection:
            return int(step % exact.size)
        if number == 0:
            # A total so large that the fit learns structure can be drawn, if seldom.
            return np.array([round(total)], np.int64)
        # Alternating signs, so that cells move against one another as well.
        signs = np.where(np.arange(exact.size).reshape(exact.shape) % 2, -1, 1)
        return exact + np.rint(OFFSETS[step] * scale * signs).astype(np.int64)

    return choose


EPSILON = 1.0


@pytest.mark.slow
@NEIGHBOURS
def test_every_path_of_a_grid_stays_within_epsilon(neighbours, tmp_path):
    """Two columns: total, one-ways, a selection, a pair, and the pair or the one-ways once more."""
    largest = 0.0
    for first, second in PAIRS[neighbours]:
        sides = [build(rows, 2, neighbours) for rows in (first, second)]
        for path in product(range(len(OFFSETS)), repeat=3):
            steps = (0, path[0], path[1], 0, path[2], *path)
            ratio, most, questions = compare(*sides, EPSILON, on_grid(steps, 500.0), tmp_path)
            # A pair that looks like independence is not measured again: both one-ways are.
            assert questions in (6, 7)
            assert abs(ratio) <= EPSILON + SLACK
            assert most <= EPSILON + SLACK
            largest = max(largest, abs(ratio))
    # The grid reaches most of what is allowed: the bound is not met by being far away from it.
    assert largest > 0.7 * EPSILON


@NEIGHBOURS
@pytest.mark.parametrize("total", [1.0, 1e6])
def test_longer_fits_stay_within_epsilon(neighbours, total, tmp_path):
    """Three columns, random paths: few rows without a tree, many with one and with rounds."""
    numbers = np.random.default_rng(1)
    lengths = set()
    for first, second in PAIRS[neighbours]:
        sides = [build(rows, 3, neighbours) for rows in (first, second)]
        for _ in range(3):
            path = numbers.integers(0, 3, 40)
            ratio, most, questions = compare(*sides, EPSILON, on_grid(path, total), tmp_path)
            assert abs(ratio) <= most + SLACK
            assert most <= EPSILON + SLACK
            lengths.add(questions)
    assert (4 if total == 1 else 9) <= max(lengths) <= 16


def test_the_law_of_a_choice_is_a_law():
    scores = np.array([5, 9, 9, -3]) * GRID
    chances = [math.exp(log_choice(k, scores, 3.0 * GRID)) for k in range(4)]
    assert sum(chances) == pytest.approx(1)
    assert chances[1] == pytest.approx(chances[2])
    assert math.exp(log_choice(0, np.array([0, GRID]), float(GRID))) == pytest.approx(0.5 / math.e)


# Mutants


def exceeds(first, second, folder, factor=1.0):
    sides = [build(rows, 2, "add-remove") for rows in (first, second)]
    path = (0, 0, 0, 0, 0)
    ratio, most, _ = compare(*sides, EPSILON, on_grid(path, 500.0), folder, factor)
    return abs(ratio) > EPSILON or most > EPSILON + SLACK


def test_half_the_noise_is_caught(tmp_path):
    first, second = PAIRS["add-remove"][0]
    assert not exceeds(first, second, tmp_path)
    assert exceeds(first, second, tmp_path, 0.5)


def test_a_prediction_from_exact_rows_is_caught(tmp_path, monkeypatch):
    """The next question then depends on more than what was released."""
    first, second = PAIRS["add-remove"][0]
    sound = PairLearner._predict

    def exact(self, candidate):
        return sound(self, candidate) + self.session._data._rows("t")

    monkeypatch.setattr(PairLearner, "_predict", exact)
    with pytest.raises(AssertionError, match="next question"):
        exceeds(first, second, tmp_path)


def test_a_score_that_moves_too_far_is_caught(tmp_path, monkeypatch):
    """The fit is priced for scores that one row moves by a half; these it moves by thousands."""
    first, second = PAIRS["add-remove"][0]
    sides = [build(rows, 3, "add-remove") for rows in (first, second)]
    sound = PairScores.evaluate
    choose = on_grid([0] * 12, 5000.0)
    assert compare(*sides, EPSILON, choose, tmp_path)[1] <= EPSILON + SLACK

    def louder(self, data):
        return 1000 * np.arange(1, len(self.pairs) + 1) * sound(self, data)

    monkeypatch.setattr(PairScores, "evaluate", louder)
    assert compare(*sides, EPSILON, choose, tmp_path)[1] > EPSILON
