"""Values, rules and ``pg_stats`` of two real databases."""

import numpy as np
import pytest
from sql_files import sql_of

from privbench.metrics.base import weighted
from privbench.report import compare
from privbench.report.figures import learned
from privbench.report.headlines import headlines
from privbench.report.html import render
from privbench.workload import Workload

EMPTY = Workload("none", ())


def test_tables_without_statistics_are_named(make_database):
    known = "CREATE TABLE known AS SELECT 1 AS v; ANALYZE;"
    dsn = make_database(known + "CREATE TABLE later AS SELECT generate_series(1, 5) AS v")
    page = render(compare(dsn, dsn, EMPTY, distributions=False))
    for side in ("source", "clone"):
        assert f"No statistics on the {side} for public.later: run ANALYZE" in page
    assert page.count("No statistics on") == 2


@pytest.fixture(scope="module")
def items(make_database):
    """A source whose rules hold, and a clone where some are broken."""
    sides = {"late": "i % 40", "off": 0, "long": 4, "rows": 2000}, {
        "late": "-(i % 9)", "off": 3, "long": 8, "rows": 1000
    }  # fmt: skip
    return [make_database(sql_of(__file__, "rules", **side)) for side in sides]


@pytest.fixture(scope="module")
def document(items):
    return compare(*items, EMPTY, gates=["values.sum.median > .2", "values.order.max > .5"])


def test_values_and_rules_of_every_column_are_compared(document):
    assert [gate.failed for gate in document.gates] == [True, True]
    few, table = document.tables
    parts = {part.name: part for part in table.values}
    assert set(parts) == {column.name for column in parts.values()} >= {"id", "note", "gone"}
    begun, note = parts["begun"], parts["note"]
    assert (begun.source["least"], begun.source["distinct"]) == ("2024-01-01T00:00:00", 300)
    assert (note.source["mean"], note.clone["mean"]) == (4, 8)
    assert note.errors["values.length"] == pytest.approx(0.693, abs=1e-3)
    assert (parts["gone"].source["NULL"], parts["gone"].errors["values.worst"]) == (1, 0)
    assert parts["id"].errors.keys() & {"values.mean", "values.sum", "values.range"} == set()
    paid = parts["paid"]
    assert (paid.source["mean"], paid.clone["mean"], paid.source["distinct"]) == (0.25, 0.125, 2)
    assert paid.errors["values.mean"] == pytest.approx(0.125 / 0.433, abs=1e-3)
    assert parts["tiny"].source["mean"] == 0  # its squares would be no floats
    price, total = parts["price"], parts["total"]
    assert price.errors["values.sum"] == pytest.approx(0.693, abs=0.01)
    assert price.errors["values.mean"] < 0.05 < total.errors["values.range"] + 0.05
    rules = {rule.rule: rule for rule in table.rules}
    assert {"begun ≤ ended", "total = price × amount", "amount = same"} <= set(rules)
    assert rules["begun ≤ ended"].clone < 0.2 < 0.9 < rules["begun ≤ ended"].error
    assert (rules["total = price × amount"].source, rules["total = price × amount"].clone) == (1, 0)
    assert rules["amount = same"].error == 0
    assert any(rule.startswith("net = 4 × tax") for rule in rules)
    assert min(table.source_bytes) > min(table.clone_bytes) > 0
    # Tables of a few rows are shown, and count in no figure.
    assert few.values
    assert (learned(document.tables), learned([few])) == ([table], [few])
    assert document.figures["kld.2"] == table.divergence["2"].kld
    assert few.worst[0] > document.figures["values.worst.p50"]
    assert document.figures["rows.max_difference"] == 50
    (values, *_, rows) = headlines(document)
    assert "worst: public.items" in values.aside
    assert rows.aside.startswith("public.items; 2,009 rows")


def test_pictures_of_many_values_have_bins_of_equal_or_logarithmic_widths(document):
    """Bins of equal mass are flat whatever the distribution."""
    columns = {part.name: part for part in document.tables[1].columns}
    assert (columns["begun"].how, columns["size"].how) == ("equal widths", "logarithmic widths")
    # Up to 256 values are compared one by one, and up to 40 drawn so.
    assert {columns[name].how for name in ("level", "price")} == {"equal widths"}
    assert columns["amount"].how == "values"
    assert columns["ancient"].labels[0].startswith("-167-")
    for part in (columns["begun"], columns["size"]):
        assert 10 < len(part.labels) == len(part.real) == len(part.clone) < 40
        assert sum(part.real) == pytest.approx(1) == sum(part.clone)
    day = np.datetime64("2024-01-01")
    lows = [np.datetime64(label.split(" ")[0]) for label in columns["begun"].labels[:-1]]
    assert {(low - day).astype(int) % 10 for low in lows} <= {*range(10)}
    assert max(np.diff(lows)) - min(np.diff(lows)) <= np.timedelta64(1, "D")
    lows = [float(label.split(" ")[0]) for label in columns["size"].labels[1:-1]]
    assert np.diff(np.log(lows)) == pytest.approx(np.diff(np.log(lows)).mean(), rel=0.05)
    # Half of the rows end the tail early.
    assert columns["size"].clone[-5:] == [0] * 5
    assert columns["size"].tvd > 0.4
    flat = columns["size"].real
    assert max(flat[1:-1]) < 2 * min(flat[1:-1])


def test_weights_count_as_repeats():
    errors, weights = np.array([4.0, 1.0, 2.0]), np.array([1.0, 3.0, 6.0])
    found = weighted(errors, weights)
    whole = np.sort(np.repeat(errors, weights.astype(int)))
    assert found.mean == pytest.approx(whole.mean())
    assert (found.p50, found.p90, found.p95, found.max) == (2, 2, 4, 4)
    assert weighted(errors, np.full(3, 7.0)) is None
    assert weighted(errors[:0], weights[:0]) is None
