"""The harness over a whole fit of a live source, and over every query that context may ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import market
import pytest
from fits import Fitted, check_claims, fit

from privbench.privacy import DatabaseSpec, KeySpec, Query
from privbench.privacy import queries as q
from privbench.privacy.neighbour import remove_unit, worst_hub
from privbench.privacy.stability import check


@pytest.fixture(scope="module")
def source(make_database):
    return market.create_with_hub(make_database())


@pytest.fixture(scope="module")
def fitted(source, tmp_path_factory) -> Fitted:
    return fit(source, market.config(tmp_path_factory.mktemp("stability")))


@pytest.mark.parametrize(
    ("name", "accounting", "neighbours", "unit"),
    market.some_slow(
        [(n, a, *r) for n, a, r in product(market.CORE, ["pure", "zcdp"], market.RELATIONS)],
        [("independent", "pure", *relation) for relation in market.RELATIONS]
        + [("privbench", "zcdp", "add-remove", "owner")],
    ),
)
def test_check_of_every_claim_of_a_fit_holds(source, tmp_path, name, accounting, neighbours, unit):
    config = market.with_little_noise(
        tmp_path / "ledger", name, neighbours, unit, accounting=accounting
    )
    fitted = fit(source, config)
    report = check_claims(fitted)
    print(f"{name}, {accounting}, {neighbours} of {unit}: {report}")
    assert report.ok, [(fitted.trace[bad.event].event.label, bad) for bad in report.violations]
    assert report.events == len(fitted.queries) >= 15
    assert report.neighbours >= 9
    # The harness is awake: some claims are reached.
    assert report.worst_ratio > 0.9
    assert f"{report.events} events checked on {report.neighbours} neighbours" in str(report)
    assert "0 violations" in str(report)


def test_remove_unit_of_the_worst_hub_leaves_bottom_edges(fitted: Fitted) -> None:
    hub = worst_hub(fitted.before)
    assert hub is not None
    rest = remove_unit(fitted.before, *hub)
    keys = [key for table in rest.spec.tables.values() for key in table.keys]
    gone = {key.name for key in keys if (rest._parents(key) == -2).any()}
    assert gone
    assert all(key.role == "ref" for key in keys if key.name in gone)


def context(spec: DatabaseSpec) -> Iterator[Query]:
    """Every query that context and references may need, over the real keys and columns."""
    for name, table in spec.tables.items():
        columns = list(table.attributes)[:2]
        for other in spec.tables:
            yield q.Histogram.of(spec, name, (*columns[:1], q.UnitRows(other, (0, 1, 2, 5))))
        for key in table.keys:
            yield from _of_key(spec, key, columns)


def _of_key(spec: DatabaseSpec, key: KeySpec, columns: list[str]) -> Iterator[Query]:
    if key.role == "public":
        return
    theirs = list(spec.tables[key.parent].attributes)[:2]
    far = [q.Histogram.of(spec, key.parent, theirs).axes[0]]
    if key.role == "own":
        yield q.Histogram.of(spec, key.table, (*columns, q.Owner(key, far[0]), q.Refers(key)))
        yield q.Histogram.of(spec, key.parent, (*theirs, q.Children(key)))
        return
    for cap in (1, 4):
        yield q.TargetHistogram.of(spec, key, columns, theirs, cap=cap, outside=cap > 1)
    owned = spec.tables[key.parent].own
    far += [] if owned is None else [q.Owner(owned, q.UnitRows(key.table))]
    yield q.FanIn(key)
    for by in (*far, q.UnitRows(key.table)):
        yield q.TargetHistogram.of(spec, key, columns[:1], (by,))


def test_check_of_context_holds_on_real_rows(fitted: Fitted) -> None:
    settled = fitted.before.copy()
    for table, attribute, recoding in fitted.after.recodings:
        settled.recode(table, attribute, recoding)
    asked = list(context(settled.spec))
    assert {"target histogram", "histogram", "fan-in"} <= {query.kind for query in asked}
    report = check_claims(fitted, asked)
    assert report.ok, report.violations
    assert report.worst_ratio > 0.9


def test_check_of_a_claim_too_small_finds_it(fitted: Fitted) -> None:
    class Half(q.Total):
        def sensitivity(self, spec):
            claim = super().sensitivity(spec)
            return replace(claim, l1=claim.l1 // 2)

    report = check_claims(fitted, [Half("public.purchase", 2)], gone=0, ordinary=0)
    assert {bad.reason for bad in report.violations} == {"l1"}
    sound = [q.Total("public.purchase", 2)]
    assert check_claims(fitted, sound, gone=0, ordinary=0).ok
    assert check(sound, fitted.before).ok
