"""Whole fits of references that are even within a kind of target."""

from __future__ import annotations

import numpy as np

from privbench.domain import Domain
from privbench.privacy import DatabaseSpec, KeySpec, TableSpec
from privbench.privacy.data import Cells, PrivateDatabase, PrivateTable
from privbench.synthesizers.graphical import GraphicalSynthesizer

VOTERS, POSTS = 3000, 4000
#: Mean number of votes of a post of each kind.
MEANS = np.array([1.0, 2.0, 4.0])


def votes() -> PrivateDatabase:
    """Posts of three kinds with few votes each, all far below what is counted of a post."""
    g = np.random.default_rng(1)
    kind = g.integers(0, 3, POSTS)
    seen = np.repeat(np.arange(POSTS), g.poisson(MEANS[kind]))
    like = (kind + (g.random(POSTS) < 0.3)) % 4
    tables = {
        "voters": PrivateTable(VOTERS, {"age": Cells(g.integers(0, 4, VOTERS), Domain(4))}, {}),
        "posts": PrivateTable(
            POSTS, {"kind": Cells(kind, Domain(3)), "like": Cells(like, Domain(4))}, {}
        ),
        "votes": PrivateTable(
            len(seen),
            {"mood": Cells(g.integers(0, 4, len(seen)), Domain(4))},
            {"post": seen, "voter": g.integers(0, VOTERS, len(seen))},
        ),
    }
    keys = (
        KeySpec("voter", "votes", "voters", "own"),
        KeySpec("post", "votes", "posts", "ref"),
    )
    specs = {name: TableSpec(name, {}, keys if name == "votes" else ()) for name in tables}
    return PrivateDatabase(DatabaseSpec(specs), tables)


def test_numbers_that_are_counted_in_full_come_out_as_they_were_counted(begin):
    found = []
    for seed in (1, 2, 3, 4, 5):
        session, totals, amount = begin(votes(), 20.0, noise=seed)
        model = GraphicalSynthesizer().fit(session, totals, amount)
        made = model.sample(1.0, seed).tables
        kind = made["posts"].codes["kind"]
        counts = np.bincount(made["votes"].parents["post"], minlength=len(kind))
        found.append([counts[kind == number].mean() for number in range(3)])
    off = np.median(found, axis=0) / MEANS
    assert 0.75 < off[0] < 1.5
    assert 0.8 < off[2] < 1.12
