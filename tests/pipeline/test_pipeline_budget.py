"""How the budget of columns' domains is shared: rules of released numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_files import database_of, sql_of

from privbench.config import Config
from privbench.encoding import Bounds, BoundsNeed, CategoriesNeed, PartNeed
from privbench.encoding.text_words import FIRSTS, WordsNeed
from privbench.learning.answers import Measured
from privbench.pipeline.domain_answers import bounds, without
from privbench.pipeline.domain_budget import DOMAINS, Rounds, total_amounts
from privbench.pipeline.domain_error import (
    Size,
    amount_for,
    believed,
    deviation,
    list_loss,
    margin_of,
    range_loss,
    unnamed,
)
from privbench.pipeline.domain_words import (
    laws_of,
    useful_columns,
    word_columns,
    word_lists,
    word_presence,
)
from privbench.pipeline.fit import STAGES, begin
from privbench.pipeline.planning import plan as plan_fit
from privbench.pipeline.prepare import FitPlan
from privbench.pipeline.progress import Reporter
from privbench.privacy import GRID, DatabaseSpec, Relation, root_sums
from privbench.privacy.mechanisms import THRESHOLD
from privbench.privacy.queries import WordPresence
from privbench.privacy.queries.labels import BLOCKS, NORMS
from privbench.privacy.query import PublicArray, Sensitivity
from privbench.privacy.spec import KeySpec, TableSpec

USUAL = Bounds(0, 100, released=False)


def dates(name):
    return BoundsNeed(name, np.arange(9), USUAL, poor_default=True)


def numbers(name):
    return BoundsNeed(name, np.arange(9), USUAL, poor_default=False)


def labels(name, **more):
    return CategoriesNeed(name, 64, **more)


MAKE = {
    "n": numbers,
    "d": dates,
    "l": lambda name: labels(name, repeats=True),
    "o": lambda name: labels(name, own=True),
    "g": lambda name: labels(name, own=True, grid=f"{name}p"),
}


def planned(tables, spec=None):
    """What the rules read of a plan: needs by table."""
    spec = spec or DatabaseSpec(
        {name: TableSpec(name, {}, ()) for name in tables}, Relation("add-remove", "owner")
    )
    private = [
        SimpleNamespace(
            table=SimpleNamespace(key=name),
            readers={need.attribute: SimpleNamespace(needs=(need,)) for need in needs},
        )
        for name, needs in tables.items()
    ]
    plan = SimpleNamespace(private=private, spec=spec)
    plan.needs = lambda: FitPlan.needs(plan)
    plan.lists = FitPlan.lists.func(plan)
    return plan


def owned(name):
    """Two tables: rows of this name are owned by those of ``a``."""
    key = KeySpec("k", name, "a", "own")
    return DatabaseSpec({"a": TableSpec("a", {}, ()), name: TableSpec(name, {}, (key,))})


def rounds(plan, rows, whole=0.13, accounting="zcdp"):
    totals = rows if isinstance(rows, dict) else dict.fromkeys(plan.spec.tables, rows)
    return Rounds(plan, accounting, whole, 5e-10, totals)


def amounts(needs, rows):
    """What each attribute of a table of so many rows is asked for in the last round."""
    turn = rounds(planned({"a": needs}), rows)
    groups = turn.sized({}).last({}).values()
    return {need.attribute: item.amount for group in groups for need, item in group if need}


def words_of(plan, rows, accounting):
    """The rounds of a plan whose texts may all be cut into words."""
    for item in plan.private:
        for name, reader in item.readers.items():
            reader.words = WordsNeed(f"{name} words", name, True, True)
    return rounds(plan, rows, 3.2, accounting).sized({})


@given(st.data(), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_domains_stay_within_their_budget(data, seed):
    """Every round, for every root table of any forest and whatever was released."""
    tables, needs = {}, {}
    for i in range(data.draw(st.integers(1, 5))):
        parent = data.draw(st.sampled_from([None, *tables]))
        nullable = data.draw(st.booleans())
        keys = (KeySpec("k", f"t{i}", parent, "own", nullable),) if parent else ()
        tables[f"t{i}"] = TableSpec(f"t{i}", {}, keys)
        kinds = data.draw(st.lists(st.sampled_from("ndlog"), max_size=6))
        needs[f"t{i}"] = [MAKE[kind](f"{kind}{place}") for place, kind in enumerate(kinds)]
    spec = DatabaseSpec(tables, Relation("add-remove", "owner"))
    plan, rng = planned(needs, spec), np.random.default_rng(seed)
    accounting = data.draw(st.sampled_from(["pure", "zcdp"]))
    totals = {name: data.draw(st.floats(1, 1e6)) for name in tables}
    whole = data.draw(st.floats(1e-3, 10))
    turn = rounds(plan, totals, whole, accounting)
    counted = turn.units()
    units = {q.query.table: (rng.uniform(-9, 9) ** 5, rng.uniform(0.1, 1e3)) for q in counted}
    turn = turn.sized(units)
    ranked = turn.laws()
    laws = {
        name: believed(
            plan.lists[name][1], turn.sizes[q.query.table].units, rng.normal(0, 1e3, BLOCKS), 100.0
        )
        for name, q in ranked.items()
    }
    last = turn.last(laws)
    events = [*counted, *ranked.values(), *(q for group in last.values() for _, q in group)]
    spent = root_sums((question.query.roots(spec), question.amount) for question in events)
    assert all(amount <= DOMAINS * whole * (1 + 1e-12) for amount in spent.values())
    first = total_amounts(plan, whole)
    assert sum(first.values()) > 0
    deltas = root_sums((q.query.roots(spec), q.delta) for q in events)
    assert all(delta <= turn.delta * (1 + 1e-12) for delta in deltas.values())


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_a_few_units_do_not_raise_the_noise_of_all(accounting):
    """Two dozen managers of 5,000 employees: their ranges need more than everything else."""
    whole = 0.13 if accounting == "zcdp" else 3.2
    plan = planned({"a": [labels("kind"), dates("d"), numbers("n")], "few": [dates("from")]},
                   owned("few"))  # fmt: skip
    turn = rounds(plan, {"a": 5000.0, "few": 24.0}, whole, accounting)
    law = {"a\x1fkind": believed(labels("kind"), 5000.0)}
    asked = turn.sized({"few": (24.0, 3.0)}).last(law)
    assert {*asked} & {"few\x1ffrom", "a\x1fkind", "a\x1fd", "a\x1fn"} == {
        "a\x1fkind", "a\x1fd", "a\x1fn",
    }  # fmt: skip
    assert sum(question.amount for _, question in asked["a\x1fkind"]) > 0.01 * whole


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_texts_are_listed_by_votes_and_grid_points_by_rows(accounting):
    """In a table of 500 rows a unit, where rows abound, so that C is above 1 for points."""
    plan = planned({"a": [], "b": [MAKE["l"]("kind"), MAKE["g"]("price")]}, owned("b"))
    turn = rounds(plan, {"a": 20_000.0, "b": 1e7}, 3.2, accounting)
    turn = turn.sized({"b": (20_000.0, 3.0)})
    laws = turn.laws()
    asked = turn.last({name: believed(plan.lists[name][1], 20_000.0) for name in laws})
    for name, votes in (("b\x1fkind", True), ("b\x1fprice", False)):
        for query in (laws[name].query, asked[name][0][1].query):
            assert (query.votes, query.clip == 1) == (votes, votes)


@pytest.mark.parametrize(("accounting", "most"), [("pure", 3), ("zcdp", 8)])
def test_words_are_asked_of_texts_that_no_label_covers(accounting, most):
    plan = planned({"a": [MAKE["l"]("kind"), MAKE["l"]("note")], "few": []})
    turn = words_of(plan, {"a": 20_000.0, "few": 20.0}, accounting)
    codecs = {"a": {name: SimpleNamespace(listed=("x",)) for name in ("kind", "note")}}
    one = believed(labels("kind"), 20_000.0, np.eye(1, BLOCKS)[0] * 20_000, 1.0)
    asked = useful_columns(turn, codecs, {("a", "kind"): one})
    assert [(item.column, item.labels) for item in asked] == [("note", ("x",))]
    assert word_lists(turn, asked, 0.0) == {}
    (query,) = (item.query for item in word_lists(turn, asked, 1e-9).values())
    assert (query.most, query.without, query.norm) == (most, ("x",), NORMS[accounting])
    assert {"the", "The"} <= {*query.known}
    (counted,) = word_presence(turn, asked, {"a.note": (("(TV)", "tea"), 1.0)}).values()
    assert counted.query.words[:2] == ("(TV)", "tea")
    assert counted.query.without == ("x",)
    events = [*word_lists(turn, asked, 1e-9).values(), counted]
    assert sum(event.amount for event in events) <= 0.1 * 3.2


@pytest.mark.parametrize(("accounting", "units"), [("pure", 1000.0), ("zcdp", 150.0)])
def test_words_are_not_asked_where_the_columns_of_a_table_share_too_little(accounting, units):
    for count, found in ((1, ["small.0", "large.0"]), (9, ["large.0"])):
        columns = {"small": [str(n) for n in range(count)], "large": ["0"]}
        plan = planned({table: [MAKE["l"](n) for n in names] for table, names in columns.items()})
        turn = words_of(plan, {"small": units, "large": 1e6}, accounting)
        assert [item.label for item in word_columns(turn)] == found


def test_words_and_first_letters_are_told_from_noise():
    query = WordPresence("t", "w", 1, ("(TV)", "rare", "the"), PublicArray(FIRSTS))
    rng, sd = np.random.default_rng(3), 10.0
    exact = np.zeros(query.shape)
    exact[0] = 4000.0
    exact[1 + FIRSTS.index(ord("M"))] = 3000.0
    exact[-12:] = [2000, 5, 400, 0, 0, 0, 1200, 0, 0, 0, 0, 0]
    pieces, firsts = laws_of(query, exact + rng.normal(0, sd, exact.size), sd)
    assert {word for word, _ in pieces} in ({"(TV)", "rare", "the"}, {"(TV)", "the"})
    assert dict(pieces)["(TV)"] == pytest.approx((0.5, 0.0, 0.3, 0.0), abs=0.02)
    assert dict(firsts)[ord("M")] == pytest.approx(0.75, abs=0.02)
    assert sum(share for point, share in firsts if point != ord("M")) < 0.05
    hidden = laws_of(query, rng.normal(0, sd, exact.size), sd)
    assert hidden == ((), ())
    # Letters that noise alone tells apart begin as many texts as public words.
    exact[1 : 1 + len(FIRSTS)] = [60.0 * (0x61 <= point < 0x7B) for point in FIRSTS]
    _, firsts = laws_of(query, exact, 4 * sd)
    assert dict(firsts)[ord("s")] > 5 * dict(firsts)[ord("z")]


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
@pytest.mark.parametrize("values", [1, 64])
def test_thresholds_are_those_of_the_mechanism(accounting, values):
    """The rules take the continuous limit of what OpenDP states."""
    amount, delta = (0.5, 1e-9) if accounting == "pure" else (0.01, 1e-9)
    mechanism = THRESHOLD[accounting]
    claim = Sensitivity(GRID, float(GRID), GRID, values)
    scale = mechanism.scale(claim, amount)
    stated = mechanism.threshold(claim, scale, delta) / GRID
    margin = margin_of(accounting, delta, values) * deviation(accounting, amount)
    assert 1 + margin == pytest.approx(stated, rel=0.02)
    assert deviation(accounting, amount_for(accounting, 7.0)) == pytest.approx(7.0)


def test_noise_in_a_law_is_no_gate():
    """A column that drowns in noise is taken to hold what is usual, not nothing."""
    need = labels("kind")
    usual = believed(need, 400.0)
    drowned = believed(need, 400.0, np.full(BLOCKS, -500.0), 1e6)
    assert drowned == pytest.approx(usual, rel=0.01)
    clear = believed(need, 4000.0, np.append([2000.0, 1500.0], np.zeros(BLOCKS - 2)), 10.0)
    assert clear[:2] == pytest.approx([2000.0, 1500.0], rel=0.02)
    assert (np.diff(clear) <= 1e-9).all()
    assert unnamed(clear, 2) == pytest.approx(0.0, abs=0.01)
    assert unnamed(clear, 1) == pytest.approx(1500 / 3500, abs=0.01)


def test_losses_of_lists_and_ranges_fall_with_noise():
    sd, size = np.geomspace(1e4, 1e-2, 40), Size(10_000.0, 2_000.0, 1_500.0)
    law = believed(CategoriesNeed("kind"), 2000.0)
    for error in (
        list_loss(CategoriesNeed("kind"), law, size, 6.0, sd),
        list_loss(CategoriesNeed("at", grid="p"), law, size, 6.0, sd),
        range_loss(dates("d"), size, sd),
    ):
        assert (np.diff(error) <= 1e-9).all()
        assert error[0] > 10 * error[-1] > 0


@pytest.mark.parametrize("below", [0.0, 30.0])
def test_a_range_of_numbers_begins_at_zero_where_nothing_is_seen_below(below):
    """Where a run of cells alone stands out of the noise, its beginning is uncertain."""
    need = BoundsNeed("n", np.arange(-20, 21), USUAL, poor_default=False)
    counts = np.repeat([below, 0.0, 3.0, 0.0], [3, 18, 12, 9])
    noise = np.random.default_rng(1).normal(0.0, 1.0, (60, counts.size))
    found = [bounds([(need, Measured(None, counts + one, 1.0))], 16) for one in noise]
    negative = sum(item.lo < 0 for item in found)
    # Noise alone is taken for rows once or twice.
    assert negative == len(found) if below else negative <= 4


@pytest.mark.parametrize("mark", [5, 500, 990], ids=["before", "within", "beyond"])
@pytest.mark.parametrize("others", [0, 3000])
def test_a_value_of_most_rows_does_not_stretch_a_range(mark, others):
    """As 9999-12-31 does, of which the list of shared values knows the count."""
    need, rng = BoundsNeed("d", np.arange(0, 1010, 10), USUAL), np.random.default_rng(1)
    values = np.append(rng.integers(400, 600, others), np.full(7000, mark))
    places = np.searchsorted(need.candidates, values, side="right")
    noisy = np.bincount(places, minlength=102) + rng.normal(0.0, 10.0, 102)
    shared = Measured(None, np.array([7020.0]), 30.0)
    answer = Measured(None, noisy, 10.0)
    found = bounds([(need, answer)], 32)
    assert found.lo <= mark < found.hi
    apart = bounds([(need, without(need, answer, [str(mark)], shared))], 32)
    if others:
        assert 380 <= apart.lo <= 400 < 600 <= apart.hi <= 620
    else:
        assert apart is None


UNITS, WRITERS, EACH = 4000, 400, 6
SOURCE = sql_of(__file__, "budget", units=UNITS, writers=WRITERS, orders=WRITERS * EACH)
source = database_of(SOURCE)


@pytest.fixture(scope="module")
def fitted(source, tmp_path_factory):
    """The domains of the database above, and what was asked for them."""
    tables = {"public.users": [], "public.orders": ["user_id"], "public.refunds": ["user_id"]}
    config = Config.model_validate(
        {
            "privacy": {"epsilon": 3.0, "delta": 1e-9, "seed": 4},
            "tables": {name: {"own": own} for name, own in tables.items()},
            "ledger": {"path": str(tmp_path_factory.mktemp("ledger"))},
        }
    )
    draft = begin(source, config, Reporter())
    for _, stage in STAGES[:4]:
        stage(draft)
    draft.session.close()
    noise = {
        step.event.label: draft.session.noise_scale(step.query, step.event.amount)
        for step in draft.session.trace
    }
    return config, draft.codecs, noise


def test_domains_of_a_fit_hold_what_few_owners_and_namesakes_tell(fitted):
    """A tenth of the users has orders, next to none has refunds: labels, blanks, marks."""
    _, codecs, noise = fitted
    assert {"units public.orders", "units public.refunds"} <= {*noise}
    for label in noise:
        assert not label.startswith(("range public.refunds", "categories public.refunds.until"))
    edges = codecs["public.orders"]["amount"].recodings["amount"]
    core = edges.edges[edges.core[0]], edges.edges[edges.core[1]]
    assert 500 <= core[0] <= 1500
    assert 3000 <= core[1] <= 8192
    assert codecs["public.users"]["plan"].labels == ("gold", "silver", "tin")
    assert codecs["public.users"]["gift"].labels == ("",)
    for table in ("users", "orders", "refunds"):
        edges = codecs[f"public.{table}"]["until"].recodings["until"].edges
        assert max(edges[:-1]) // 365 > 7900


def test_plan_says_what_a_list_needs_and_which_events_come(source, fitted):
    config, _, noise = fitted
    report = plan_fit(config, source)
    said = {event.label for event in report.events}
    listed = {event.label: event for event in report.events if event.needed is not None}
    plan_list = listed["categories public.users.plan"]
    assert plan_list.kind == "label counts"
    # A threshold lies some seven deviations of the noise above one unit.
    assert 5 < (plan_list.needed - 2) / plan_list.noise_sd < 8
    assert f"labels of {min(plan_list.needed, *plan_list.needs):.3g}" in report.render(whole=True)
    assert {"units public.orders", "ranked counts public.users.plan"} <= said
    assert said & {*noise} >= {"categories public.users.plan", "range public.orders.amount"}


def test_the_noise_of_a_plan_is_that_of_the_fit(source, fitted):
    """Lists are asked for by what their laws say: a plan has a range, and the fit is within it."""
    config, _, noise = fitted
    rows = {"public.users": UNITS, "public.orders": WRITERS * EACH, "public.refunds": 1}
    told = {"total": 1.01, "ranked counts": 1.5, "label counts": 1.35}
    seen = set()
    for event in plan_fit(config, source, rows).events:
        if event.label not in noise or event.kind not in told:
            continue
        ends = event.noise_sd, *event.noises
        assert min(ends) / told[event.kind] <= noise[event.label], event
        assert noise[event.label] <= max(ends) * told[event.kind], event
        seen.add(event.kind)
    assert seen == {*told}


@pytest.mark.parametrize("noisy_total", [1.0, 3000.0])
def test_a_noisy_total_does_not_hide_units_that_were_counted(noisy_total):
    """A list of 900 units is asked for, though noise hides the total of their rows."""
    plan = planned({"a": [], "b": [MAKE["l"]("kind")]}, owned("b"))
    turn = rounds(plan, {"a": 5000.0, "b": noisy_total})
    turn = turn.sized({"b": (900.0, 20.0)})
    assert turn.sizes["b"].units >= 860.0
    assert turn.sizes["b"].rows >= 860.0
    assert "b\x1fkind" in turn.laws()


def test_steps_of_integers_are_asked_for_where_they_are_cheap():
    """Few columns have one, and in a small table all others would pay for it."""
    needs = [numbers("n"), PartNeed("t", range(3)), PartNeed("i", range(3), sizes=(10, 2, 1))]
    assert {*amounts(needs, 1_000)} == {"n", "t"}
    assert {*amounts(needs, 100_000)} == {"n", "t", "i"}


def test_steps_of_dates_are_asked_for_more_closely_than_those_of_numbers():
    """A tenth of the rows may have a date: its step was hidden at the price of the others."""
    number = PartNeed("number", range(3))
    date = PartNeed("date", range(3), chances=((1.0, 0.0), (0.5, 0.5)))
    asked = amounts([numbers("n"), number, date], 5_000)
    assert asked["date"] > 1.5 * asked["number"]
