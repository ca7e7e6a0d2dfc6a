"""Whole fits on real extractions: what a neighbour, another order and other keys leave as it is."""

from __future__ import annotations

import sys
from itertools import product

import fits
import market
import numpy as np
import psycopg
import pytest

from privbench.pipeline.fit import begin
from privbench.privacy.data import PrivateDatabase
from privbench.privacy.neighbour import remove_unit, telling_units
from privbench.privacy.session import Step

NAMES = market.CORE


class Replayed:
    """Noise that gives the results of an earlier fit: what a neighbour would have released."""

    private = True

    def __init__(self, steps: list[Step]) -> None:
        self._results = [step.result for step in steps]

    def vector(self, mechanism, values, scale, stream):
        number, cells = stream.split()[0], stream.endswith("cells")
        result = self._results[int(number)]
        return np.array(result.cells if cells else result)

    def index(self, mechanism, scores, scale, stream):
        return self._results[int(stream)]

    def labels(self, mechanism, counts, scale, threshold, stream):
        result = self._results[int(stream)]
        return dict(zip(result.labels, result.counts, strict=True))


@pytest.fixture
def run(monkeypatch):
    """Run the stages of a fit, optionally on other rows and with given results."""

    def go(source, config, rows=None, replay=None) -> fits.Fitted:
        if replay is not None:
            module = sys.modules[begin.__module__]
            monkeypatch.setattr(module, "OpenDPNoise", lambda: Replayed(replay))
        return fits.fit(source, config, rows)

    return go


@pytest.fixture(scope="module")
def source(make_database):
    return market.create_with_hub(make_database())


@pytest.mark.parametrize(
    ("name", "neighbours", "unit"),
    market.some_slow(
        [(name, *relation) for name, relation in product(NAMES, market.RELATIONS)],
        [("independent", "add-remove", "owner")],
    ),
)
def test_fit_of_a_neighbour_is_the_same_release(source, tmp_path, run, name, neighbours, unit):
    """The list of events and the model are functions of the results alone (P17, P23)."""
    config = market.with_little_noise(tmp_path / "one", name, neighbours, unit)
    fitted = run(source, config)
    for number, (table, row) in enumerate(telling_units(fitted.before, most=1)[:4:3]):
        other = market.with_little_noise(tmp_path / f"other {number}", name, neighbours, unit)
        again = run(source, other, remove_unit(fitted.before, table, row), fitted.trace)
        assert fitted.queries == again.queries, (table, row)
        assert again.model.events == fitted.model.events
        assert again.model.tables == fitted.model.tables
        assert again.model.state == fitted.model.state
        assert again.model.arrays.keys() == fitted.model.arrays.keys()
        for key, array in fitted.model.arrays.items():
            np.testing.assert_array_equal(again.model.arrays[key], array)
        assert again.model.promise == fitted.model.promise


@pytest.fixture(scope="module")
def shuffled(source, make_database):
    """The same rows with other keys, in another order."""
    dsn = make_database(market.SCHEMA)
    with psycopg.connect(source) as old, psycopg.connect(dsn) as new:
        new.execute("SET session_replication_role = replica")
        for table, columns in COPIES.items():
            # Public rows are copied as they come: their order is public as well.
            order = "code" if table == "region" else "md5(x::text)"
            query = f"SELECT {columns} FROM {table} x ORDER BY {order}"
            target = ", ".join(column.split(" AS ")[-1] for column in columns.split(", "))
            with (
                old.cursor().copy(f"COPY ({query}) TO STDOUT".encode()) as rows,
                new.cursor().copy(f"COPY {table} ({target}) FROM STDIN".encode()) as out,
            ):
                for block in rows:
                    out.write(block)
    assert market.counts(dsn) == market.counts(source)
    return dsn


#: Renumbered by maps that turn the order of keys round.
COPIES = {
    "region": "code, title",
    "customer": "9000 - id AS id, region, 9000 - referrer AS referrer, tier, email, note, born, "
    "credit",
    "product": "500 - id AS id, title, price, status",
    "purchase": "70000 - id AS id, 9000 - customer_id AS customer_id, placed, shipped, paid",
    "line": "70000 - purchase_id AS purchase_id, number, 500 - product_id AS product_id, quantity, "
    "price",
    "refund": "8000 - id AS id, 70000 - purchase_id AS purchase_id, number, reason",
}


@pytest.mark.parametrize(
    ("name", "unit"), market.some_slow(product(NAMES, ["owner", "row"]), [("independent", "owner")])
)
def test_fit_of_other_keys_and_order_asks_the_same(source, shuffled, tmp_path, run, name, unit):
    """Every exact statistic is the same, but those that read random ranks.

    Those are found by drawing ranks anew on the same rows: nothing else moves then.
    """
    fitted = run(source, market.with_little_noise(tmp_path / "a", name, "add-remove", unit))
    moved = run(shuffled, market.with_little_noise(tmp_path / "b", name, "add-remove", unit))
    recodings = fitted.after.recodings
    here = [statistics(fitted.queries, drawn(fitted.before), recodings) for _ in range(20)]
    there = [statistics(fitted.queries, drawn(moved.before), recodings) for _ in range(5)]
    steady = [
        n for n in range(len(fitted.trace)) if all(equal(here[0][n], found[n]) for found in here)
    ]
    ranked = {fitted.queries[n].kind for n in range(len(fitted.trace)) if n not in steady}
    assert len(steady) > 0.7 * len(fitted.trace), ranked
    # A statistic that only seems steady, since ranks seldom move it, meets its usual value.
    differ = [n for n in steady if not any(equal(here[0][n], found[n]) for found in there)]
    assert not [fitted.trace[n].event.label for n in differ]
    if unit == "row":
        assert len(steady) == len(fitted.trace)


def drawn(rows: PrivateDatabase) -> PrivateDatabase:
    """The same rows with fresh random ranks."""
    return PrivateDatabase(rows.spec, rows._tables)


def statistics(queries, before, recodings):
    """Exact statistics: raw attributes before the recodings, all else after them."""
    settled = before.copy()
    for table, attribute, recoding in recodings:
        settled.recode(table, attribute, recoding)
    found = []
    for query in queries:
        rows = before if getattr(query, "reads_raw", False) else settled
        labels = getattr(query, "evaluate_labels", None)
        found.append(query.evaluate(rows) if labels is None else labels(rows))
    return found


def equal(one, other) -> bool:
    if isinstance(one, tuple):
        return np.array_equal(one[0], other[0]) and one[1] == other[1]
    return np.array_equal(one, other)
