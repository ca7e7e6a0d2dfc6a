"""Laws of rows given bins of their owners: fitted, drawn, stored."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from privbench.circuit import check, marginal
from privbench.domain import Domain
from privbench.errors import ModelError
from privbench.learning.bins import Bins
from privbench.learning.junction.byrows import RowLaw
from privbench.learning.junction.given import Given, GivenColumn
from privbench.learning.junction.model import TableLaw
from privbench.learning.junction.population import Population, given_rows
from privbench.learning.junction.storage import law_from_arrays, law_to_arrays
from privbench.learning.junction.structure import layout
from privbench.learning.junction.tree import fit_tree
from privbench.rng import generator

# Laws given owners

GIVEN, OWN = (4, 3, 2), (3, 5, 2, 4)
EDGES = [(0, 3), (1, 4), (3, 4), (4, 5), (3, 6)]
WIDE = [(1, 6)]
SHAPE = (*GIVEN, *OWN)


def margin(whole, pair):
    return whole.sum(axis=tuple(k for k in range(whole.ndim) if k not in pair))


def law_given(seed=1, rows=4000, wide=()):
    """A law of four attributes given three, synthetic owners' rows, and the exact joint law.

    Pairs of attributes are those of a random joint law; the last given one says nothing.
    """
    g = generator(seed, "given")
    cells = g.choice(12, rows, p=g.dirichlet(np.ones(12)))
    bins = np.stack([cells // 3, cells % 3, g.integers(0, 2, rows)]).astype(np.uint16)
    held = Given(GIVEN, bins, g.integers(1, 4, rows).astype(float))
    above = held.table((0, 1, 2))
    inside = g.dirichlet(np.full(int(np.prod(OWN)), 0.03), GIVEN[:2]).reshape(*GIVEN[:2], 1, *OWN)
    joint = above.reshape(*GIVEN, 1, 1, 1, 1) * inside
    tables = {pair: 800.0 * margin(joint, pair) for pair in [*EDGES, *wide]}
    shares = [margin(joint, (name,)) for name in range(len(SHAPE))]
    tree = fit_tree(
        layout(range(len(SHAPE)), EDGES, SHAPE, len(GIVEN)),
        shares,
        {pair: tables[pair] for pair in EDGES},
        held,
    )
    columns = tuple(
        GivenColumn(level, f"g{level}", np.arange(size - level)) for level, size in ((1, 4), (1, 3))
    )
    columns = (*columns, GivenColumn(1, "g0", np.zeros(3, int)))
    bins_of = tuple(Bins(np.arange(s), np.ones(s), 800 * shares[3 + k]) for k, s in enumerate(OWN))
    domains = {f"a{k}": Domain(size) for k, size in enumerate(OWN)}
    law = TableLaw(domains, bins_of, tree, tables, 800.0, columns, 3)
    return law, held, joint


def law_of(tree):
    """The joint law of a tree by enumeration."""
    out = np.ones(tree.sizes)
    for cell in product(*map(range, tree.sizes)):
        for name in range(len(tree.sizes)):
            near = tuple(cell[other] for other in tree.layout.near[name])
            out[cell] *= tree.laws[name][(*near, cell[name])]
    return out


def seen(held, made, pair, rows):
    """Table of a pair in drawn rows: given columns, then attributes."""
    sides = [*held.bins, *(made[f"a{k}"] for k in range(len(OWN)))]
    first, second = (np.asarray(sides[name], np.int64) for name in pair)
    shape = SHAPE[pair[0]], SHAPE[pair[1]]
    return np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1]).reshape(shape)


@pytest.mark.parametrize("seed", range(3))
def test_trees_keep_the_margins_of_every_table_and_the_law_of_owners(seed):
    law, held, joint = law_given(seed)
    whole = law_of(law.tree)
    assert whole.sum() == pytest.approx(1)
    assert law.tree.layout.family[1] == (0,)
    assert np.abs(margin(whole, (0, 1)) - held.table((0, 1))).max() < 1e-9
    for pair in EDGES:
        assert np.abs(margin(whole, pair) - margin(joint, pair)).max() < 2e-4
    for name in range(len(SHAPE)):
        assert margin(whole, (name,)) == pytest.approx(margin(joint, (name,)), abs=1e-4)
    # The conditional follows the given bin: rows of the table over its margin.
    first = margin(joint, (0, 3))
    assert law.tree.laws[3] == pytest.approx(first / first.sum(axis=1, keepdims=True), abs=1e-3)


@pytest.mark.parametrize("herded", [True, False])
@pytest.mark.parametrize("wide", [(), WIDE], ids=["narrow", "wide"])
def test_rows_follow_what_is_given_to_them(wide, herded):
    law, held, joint = law_given(2, wide=wide)
    assert law.wide == bool(wide)
    rows = held.rows
    even = Given(held.sizes, held.resampled(rows, generator(1, "even")), np.ones(rows))
    made = law.sample(rows, generator(3, "rows"), herded=herded, given=even)
    mixed = Given(even.sizes, even.bins[:, generator(4, "mix").permutation(rows)], even.weights)
    for pair in [(0, 3), (1, 4)]:
        due = margin(joint, pair)
        error, other = (
            np.abs(seen(side, made, pair, rows) / rows - due).sum() for side in (even, mixed)
        )
        assert error < 0.06, pair
        assert error < 0.3 * other, pair
    for pair in [(3, 4), (4, 5), (3, 6)]:
        assert np.abs(seen(even, made, pair, rows) / rows - margin(joint, pair)).sum() < 0.06
    for pair in wide:
        plain = replace(law, tables={known: law.tables[known] for known in EDGES})
        without = plain.sample(rows, generator(3, "rows"), herded=herded, given=even)
        error, other = (
            np.abs(seen(even, side, pair, rows) / rows - margin(joint, pair)).sum()
            for side in (made, without)
        )
        assert error < 0.5 * other


def test_rows_of_one_context_follow_its_conditional():
    law, _, joint = law_given(2)
    table = margin(joint, (0, 3))
    for code in range(GIVEN[0]):
        bins = np.array([[code], [1], [0]], np.uint16).repeat(3000, axis=1)
        held = Given(GIVEN, bins, np.ones(3000))
        made = law.sample(3000, generator(code, "one"), herded=False, given=held)
        share = np.bincount(made["a0"], minlength=OWN[0]) / 3000
        assert share == pytest.approx(table[code] / table[code].sum(), abs=0.03)


def test_trimmed_laws_draw_the_same_rows():
    law, held, _ = law_given(4, wide=WIDE)
    slim = law.trimmed()
    assert (len(law.given), len(slim.given)) == (3, 2)
    assert [column.name for column in slim.given] == [column.name for column in law.given[:2]]
    assert slim.tables.keys() == {(i - (i > 2), j - 1) for i, j in law.tables}
    less = Given(held.sizes[:2], held.bins[:2], held.weights)
    first = law.sample(900, generator(1, "x"), herded=False, given=held.part(slice(0, 900)))
    second = slim.sample(900, generator(1, "x"), herded=False, given=less.part(slice(0, 900)))
    for name in first:
        assert np.array_equal(first[name], second[name])


def test_circuits_of_laws_with_given_columns_are_exact():
    law, held, _ = law_given(5)
    circuit = law.circuit()
    check(circuit)
    whole = law_of(law.tree).sum(axis=(0, 1, 2))
    rows = 60_000
    bins = held.resampled(rows, generator(1, "many"))
    given = Given(held.sizes, bins, np.ones(rows))
    made = law.sample(rows, generator(2, "many"), herded=False, given=given)
    for i, j in combinations(range(len(OWN)), 2):
        exact = marginal(circuit, f"a{i}", f"a{j}")
        assert exact.sum() == pytest.approx(1)
        assert np.abs(exact - margin(whole, (i, j))).max() < 1e-9
        drawn = np.bincount(
            made[f"a{i}"].astype(int) * OWN[j] + made[f"a{j}"], minlength=exact.size
        )
        assert np.abs(drawn / rows - exact.ravel()).sum() < 0.02


# Laws of codes within bins


def law_with_fine():
    """Two attributes of eight codes in two bins each, whose codes go together within the bins."""
    g = generator(9, "fine")
    joint = g.dirichlet(np.full(64, 0.15)).reshape(8, 8)
    of = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    table = np.zeros((2, 2))
    np.add.at(table, (of[:, None], of), joint)
    domains = {"first": Domain(8, True), "second": Domain(8, True), "third": Domain(3)}
    bins = []
    for share in (joint.sum(axis=1), joint.sum(axis=0)):
        mass = np.bincount(of, share)
        bins.append(Bins(of, share / mass[of], 500 * mass))
    bins.append(Bins(np.arange(3), np.ones(3), np.array([100.0, 100, 300])))
    shares = [part.counts / 500 for part in bins]
    fine = {(0, 1): 500 * joint}
    found = layout([0, 1, 2, 3], [(1, 2)], [4, 2, 2, 3], 1)
    held = Given((4,), np.zeros((1, 9), np.uint16), np.ones(9))
    tables = {(1, 2): 500 * table}
    tree = fit_tree(found, [held.table((0,)), *shares], tables, held)
    column = GivenColumn(2, "above", np.array([0, 1, 1]))
    by_rows = (RowLaw(2, np.array([0, 0, 1]), np.array([0.25, 0.75])),)
    law = TableLaw(domains, tuple(bins), tree, tables, 500.0, (column,), 4, fine, by_rows, 16)
    return law, joint


def test_codes_within_bins_go_together_as_their_fine_law_says():
    law, joint = law_with_fine()
    rows = 20_000
    held = Given((4,), np.zeros((1, rows), np.uint16), np.ones(rows))
    made = law.sample(rows, generator(1, "fine"), herded=False, given=held)
    drawn = np.bincount(made["first"].astype(int) * 8 + made["second"], minlength=64) / rows
    assert np.abs(drawn - joint.ravel()).sum() < 0.06


# Stored laws


def stored(law):
    header, arrays = law_to_arrays(law)
    return json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()}


@pytest.mark.parametrize("kind", ["given", "wide", "fine"])
def test_laws_with_given_columns_round_trip(kind):
    law, rows = law_with_fine()[0] if kind == "fine" else None, 400
    if law is None:
        law, held, _ = law_given(6, wide=WIDE if kind == "wide" else ())
        held = held.part(slice(0, rows))
    else:
        units = 1 + np.arange(rows) % 40
        held = Given((4,), np.zeros((1, rows), np.uint16), np.ones(rows), units)
    again = law_from_arrays(*stored(law))
    assert (again.tau, again.wide, again.fine.keys()) == (law.tau, law.wide, law.fine.keys())
    assert (again.clip, len(again.by_rows)) == (law.clip, len(law.by_rows))
    for one, two in zip(law.given, again.given, strict=True):
        assert (one.levels, one.name, one.of.tolist()) == (two.levels, two.name, two.of.tolist())
    first, second = (side.sample(rows, generator(1, "x"), given=held) for side in (law, again))
    for name in first:
        assert np.array_equal(first[name], second[name])


FAULTS = {
    "level 0": lambda h, a: h["given"][0].__setitem__(0, 0),
    "level below": lambda h, a: h["given"][0].__setitem__(0, -1),
    "level far": lambda h, a: h["given"][0].__setitem__(0, 10**6),
    "another level": lambda h, a: h["given"][0].__setitem__(0, 7),
    "no codes": lambda h, a: h["given"][0].__setitem__(2, 0),
    "more codes": lambda h, a: h["given"][0].__setitem__(2, 2**20),
    "codes text": lambda h, a: h["given"][0].__setitem__(2, "x"),
    "bin far": lambda h, a: a["given"].__setitem__(0, 250),
    "given gone": lambda h, a: h.pop("given"),
    "given number": lambda h, a: h.update(given=7),
    "given array gone": lambda h, a: a.pop("given"),
    "given type": lambda h, a: a.update(given=a["given"].astype(np.int64)),
    "not first": lambda h, a: h.update(order=h["order"][::-1]),
    "tau 0": lambda h, a: h.update(tau=0),
    "tau text": lambda h, a: h.update(tau="many"),
    "fine far": lambda h, a: h["fine"].__setitem__(0, [0, 3]),
    "fine below": lambda h, a: h["fine"].__setitem__(0, [-1, 1]),
    "fine turned": lambda h, a: h["fine"].__setitem__(0, [1, 0]),
    "fine with itself": lambda h, a: h["fine"].__setitem__(0, [1, 1]),
    "fine other": lambda h, a: h["fine"].__setitem__(0, [0, 2]),
    "fine gone": lambda h, a: h.pop("fine"),
    "fine array gone": lambda h, a: a.pop("fine"),
    "fine nan": lambda h, a: a["fine"].__setitem__(0, np.nan),
    "clip 0": lambda h, a: h.update(clip=0),
    "by rows gone": lambda h, a: h.pop("by_rows"),
    "by rows far": lambda h, a: h["by_rows"][0].__setitem__(0, 3),
    "by rows below": lambda h, a: h["by_rows"][0].__setitem__(0, -1),
    "groups many": lambda h, a: h["by_rows"][0].__setitem__(1, 10**6),
    "groups few": lambda h, a: h["by_rows"][0].__setitem__(1, 1),
    "group far": lambda h, a: a["row_groups"].__setitem__(0, 2),
    "shares nan": lambda h, a: a["row_shares"].__setitem__(0, np.nan),
    "shares of more than all": lambda h, a: a["row_shares"].__setitem__(0, 0.5),
    "fine negative": lambda h, a: a["fine"].__setitem__(0, -1.0),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_damaged_laws_with_given_columns_are_refused(fault):
    header, arrays = stored(law_with_fine()[0])
    FAULTS[fault](header, arrays)
    with pytest.raises(ModelError):
        law_from_arrays(header, arrays)


def test_pairs_of_two_given_columns_are_refused():
    header, arrays = stored(law_given(6)[0])
    header["pairs"][0] = [0, 1, True]
    with pytest.raises(ModelError, match="pair"):
        law_from_arrays(header, arrays)


def test_nothing_is_given_to_roots_and_to_laws_without_given_columns():
    law, _, _ = law_given(1)
    people = Population({"a": None, "b": "a"}, {"a": 1, "b": 2})
    people.add("a", {}, None, 3)
    assert given_rows(law, people, "a", None) is None
    assert given_rows(replace(law, given=()), people, "b", np.zeros(2, np.int64)) is None
