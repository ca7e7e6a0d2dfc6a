"""Small and empty tables on a real PostgreSQL: what comes out, and what is said of it."""

import tomllib
from dataclasses import replace

import pytest
from halting import Watching
from sql_files import database_of, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.encoding import BoundsNeed
from privbench.pipeline.losses import NOTHING, finer_units
from privbench.pipeline.prepare import prepare

UNITS = 1500
EMPTY = {"public.fine", "public.appeal", "public.tip", "public.notice"}
source = database_of(sql_of(__file__, "losses", units=UNITS))


@pytest.fixture(scope="module")
def config(source):
    return pipeline.inspect(source, base=Config.loads("[privacy]\nepsilon = 3.2")).config


@pytest.fixture(scope="module", params=["privbench", "independent"])
def fitted(request, source, config, tmp_path_factory):
    """A model with noise that is the same in every run, what was said meanwhile, and its rows."""
    folder, listener = tmp_path_factory.mktemp(request.param), Watching()
    mine = config.with_privacy(seed=10).changed("ledger", path=str(folder / "ledger"))
    mine = mine.changed("synthesizer", name=request.param)
    model = pipeline.fit(source, mine, folder / "m", reporter=listener)
    pipeline.sample(folder / "m", folder / "out", seed=1)
    rows = {
        path.stem: path.read_text(encoding="utf-8").splitlines()[1:]
        for path in (folder / "out").glob("*.csv")
    }
    return model, listener, rows


def test_losses_of_a_fit_are_said_where_noise_hides_rows(fitted, source):
    model, listener, rows = fitted
    sizes = {name: len(lines) for name, lines in rows.items()}
    assert all(sizes[name] < 60 for name in EMPTY)
    assert any(sizes[name] == 0 for name in EMPTY)
    assert sizes["public.person"] == pytest.approx(UNITS, rel=0.1)
    # Persons must refer to a country: two rows that noise hides stay some.
    assert sizes["public.country"] >= 1
    asked = {event.label for event in model.events}
    assert {"total public.fine", "total public.notice"} <= asked
    # What is lost is said with a line of config.
    lost = pipeline.losses(model)
    found = {item.place: item for item in lost}
    told = {name for name, item in found.items() if item.what.startswith("empty")}
    assert told == {name for name, lines in rows.items() if not lines}
    assert found["public.person.mood"].what == "no value survived: surrogate texts"
    assert "useful from" in found["public.country"].what
    assert 'role = "public"' in found["public.country"].remedy
    # Its columns need no line of their own.
    assert not any(place.startswith("public.country.") for place in found)
    helped = [item for item in lost if item.remedy != NOTHING]
    assert helped
    for item in helped:
        range_of = '{ min = "…", max = "…" }'
        changed = Config.loads(item.remedy.replace(range_of, "{ min = 1, max = 1 }"))
        assert changed != Config(), item
    text = pipeline.render_losses(lost)
    assert all(item.remedy in text for item in lost)
    assert "and 3 more" in pipeline.render_losses(lost, most=len(lost) - 3)
    # Small tables are named when totals are known.
    ((text, stages),) = listener.warned
    assert "domains" not in stages
    assert "Too few units" in text
    assert "public.country " in text
    assert "ledger abandon" in text


def test_losses_of_a_chain_of_releases_count_what_each_table_was_learned_from(fitted):
    model, place = fitted[0], "public.country"
    lost = {item.place: item.what for item in pipeline.losses(model)}
    kept = [e for e in model.events if e.table != place or e.label == f"total {place}"]
    for second in (model.events, kept):
        chain = replace(model, events=(*model.events, *second))
        assert {item.place: item.what for item in pipeline.losses(chain)} == lost


def test_losses_of_a_default_range_that_rows_confirm_is_none(fitted):
    model, place = fitted[0], "public.person.age"
    plan = prepare(model.schema, Config.model_validate(model.config))
    (reader,) = (i.readers["age"] for i in plan.private if i.table.key == "public.person")
    given = {n.attribute: n.default if isinstance(n, BoundsNeed) else () for n in reader.needs}
    made = model.tables["public.person"]
    codecs = {**made.codecs, "age": reader.finish(given)}
    model = replace(model, tables={**model.tables, "public.person": replace(made, codecs=codecs)})
    assert place not in {item.place for item in pipeline.losses(model)}
    events = tuple(event for event in model.events if event.label != f"range {place}")
    lost = {item.place: item.what for item in pipeline.losses(replace(model, events=events))}
    assert lost[place] == "hidden by noise: a default range"


def test_placeholders_are_told_before_anything_is_spent(make_database):
    source = make_database("CREATE TABLE t (b bit(3), j jsonb, ip inet, n int[], v numeric)")
    config = Config.loads("[privacy]\nepsilon = 8")
    found = {item.place: item.remedy for item in pipeline.plan(config, source).losses}
    told = {place: text for place, text in found.items() if place.startswith("public.t.")}
    assert told == {
        "public.t.b": "no line helps: bit(3) is not modelled",
        "public.t.j": 'tables."public.t".columns."j".paths = ["…"]',
    }


@pytest.fixture(scope="module")
def advice(make_database):
    """A database, its proposal with public look-ups, and the least useful sizes."""
    source = make_database(sql_of(__file__, "losses_advice"))
    base = Config.loads("[privacy]\nepsilon = 8")
    config = pipeline.inspect(source, base=base, lookups="public").config
    return source, config, pipeline.plan(config, source).least


@pytest.mark.parametrize(
    ("table", "more", "remedy"),
    [
        # A thing that refers to public tables only.
        ('"Quay"', 100, 'tables."public.\\"Quay\\"".role = "public"'),
        # What a thing owns can be units itself; what a person owns cannot.
        ("pile_genre", 100, 'tables."public.pile_genre".own = []'),
        ("customer_genre", 100, NOTHING),
        ("customer_genre", 3, 'tables."public.customer_genre".weight = 4'),
        ("customer", 100, NOTHING),
    ],
)
def test_advice_for_few_units_can_help(advice, table, more, remedy):
    source, config, least = advice
    units = least[f"public.{table}"] / more
    found = pipeline.plan(config, source, {f"public.{table}": units}).losses
    (line,) = (item.remedy for item in found if item.place == f"public.{table}")
    assert line.startswith(remedy)
    assert line == NOTHING or Config.loads(line) != Config()


#: Released rows of a table, its least useful size, and whether finer units are named.
FINER = [
    # A lower bound of the rows, which are units then, has to reach the least useful size.
    ("pile_genre", 900, 400, True),
    ("pile_genre", 300, 400, False),
    ("pile_genre", 900, 90, False),
    # Of persons only where nearly all of their rows are cut off.
    ("customer_genre", 7900, 400, False),
    ("customer_genre", 8100, 400, True),
]


@pytest.mark.parametrize(("table", "rows", "least", "named"), FINER)
def test_finer_units_are_named_where_released_totals_show_that_they_help(
    advice, table, rows, least, named
):
    source, config, _ = advice
    plan, table = pipeline.check(config, source).plan, f"public.{table}"
    units = dict.fromkeys(plan.spec.tables, 100.0)
    released = dict.fromkeys(plan.spec.tables, 0.0) | {table: rows}
    advised = finer_units(plan, units, released, {table: least})
    sections = tomllib.loads(advised[advised.index("[tables") :])["tables"] if advised else {}
    assert sections == ({table: {"own": []}} if named else {})
