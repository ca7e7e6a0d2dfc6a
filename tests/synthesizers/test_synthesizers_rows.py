"""Whole fits of tables whose rows a few owners have most of: right by units and by rows."""

from __future__ import annotations

import numpy as np
import pytest
from privbench.synthesizers.junction import JunctionSynthesizer

from privbench.domain import Domain
from privbench.privacy import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable

USERS = 4000


def forum(bound="weights") -> tuple[PrivateDatabase, np.ndarray, np.ndarray]:
    """A database, and kind and owner of its notes.

    Users of few notes mostly ask, the few of most notes mostly answer; answers have no title."""
    g = np.random.default_rng(1)
    counts = np.ones(USERS, np.int64)
    counts[:600], counts[:200], counts[:60] = 6, 24, 100
    owners = np.repeat(np.arange(USERS), counts)
    often = np.array([0.15, 0.35, 0.6, 0.9])
    answers = g.random(len(owners)) < often[np.digitize(counts, [6, 24, 100])][owners]
    words = np.where(answers, 4, g.integers(0, 4, len(owners)))
    notes = PrivateTable(
        len(owners),
        {
            "kind": Cells(answers.astype(int), Domain(2)),
            "words": Cells(words, Domain(4, nullable=True)),
        },
        {"user": owners},
    )
    users = PrivateTable(USERS, {"age": Cells(g.integers(0, 4, USERS), Domain(4))}, {})
    keys = (KeySpec("user", "notes", "users", "own"),)
    specs = {"users": TableSpec("users", {}), "notes": TableSpec("notes", {}, keys, bound)}
    data = PrivateDatabase(DatabaseSpec(specs), {"users": users, "notes": notes})
    return data, answers.astype(int), owners


def share_of_answers(kind, owners) -> tuple[float, float]:
    """By units (two rows of each count) and by rows."""
    sizes = np.bincount(owners)[owners]
    return float(np.average(kind, weights=np.minimum(sizes, 2) / sizes)), float(np.mean(kind))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_of_heavy_owners_count_as_rows(seed, begin):
    data, kind, owners = forum()
    session, totals, amount = begin(data, 6.0, noise=seed)
    model = JunctionSynthesizer().fit(session, totals, amount)
    asked = [step.query for step in session.trace if step.event.label.startswith("by rows")]
    assert asked
    assert all(query.tau == model.laws["notes"].clip > 2 for query in asked)
    made = model.sample(1.0, seed).tables["notes"]
    before = share_of_answers(kind, owners)
    after = share_of_answers(made.codes["kind"], made.parents["user"])
    assert before[1] - before[0] > 0.3
    assert after[0] == pytest.approx(before[0], abs=0.06)
    assert after[1] == pytest.approx(before[1], abs=0.12)
    assert np.mean((made.codes["kind"] == 1) == (made.codes["words"] == 4)) > 0.9


def test_rows_that_are_cut_are_measured_once(begin):
    session, totals, amount = begin(forum("truncation")[0], 4.0)
    JunctionSynthesizer().fit(session, totals, amount)
    assert not [step for step in session.trace if step.event.label.startswith("by rows")]
