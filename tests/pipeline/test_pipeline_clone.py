"""Source to clone on real servers: what is promised of a clone holds in PostgreSQL."""

from itertools import product

import market
import psycopg
import pytest
from integrity import pg_dump, schema_of, whole
from psycopg import conninfo
from sql_files import sql_of

from privbench import pipeline
from privbench.config import ColumnConfig
from privbench.errors import TargetError
from privbench.pipeline import Model
from privbench.pipeline.fit import STAGES, begin, finish
from privbench.pipeline.progress import Reporter


@pytest.fixture(scope="module")
def sources(source, server, make_database_on):
    """One filled market per server."""
    made = {server.name: source}

    def of(server):
        if server.name not in made:
            made[server.name] = market.create(make_database_on(server, keep=True))
        return made[server.name]

    return of


def clone_whole(source, target, config, **more):
    """A clone is whole, like its source, and as it is reported."""
    report = pipeline.clone(source, target, config, **more)
    whole(target)
    assert schema_of(target) == schema_of(source)
    assert report.loaded.rows == {f"public.{t}": n for t, n in market.counts(target).items()}
    return report


@pytest.mark.parametrize("name", market.BY_NAME)
def test_clone_on_each_server_is_whole(sources, each_server, make_database_on, tmp_path, name):
    source, target = sources(each_server), make_database_on(each_server)
    before = pg_dump(source, "--data-only")
    config = market.config(tmp_path / "ledger", name=name, epsilon=50.0)
    report = clone_whole(source, target, config)
    assert report.loaded.rows["public.customer"] > 20
    assert 45 < report.promise.epsilon <= 50
    assert report.promise.delta <= 1e-6
    assert report.promise.private
    assert pg_dump(source, "--data-only") == before


@pytest.mark.parametrize(
    ("name", "accounting", "neighbours", "unit"),
    market.some_slow(
        [(n, a, *r) for n, a, r in product(market.CORE, ["pure", "zcdp"], market.RELATIONS)],
        [
            ("independent", "pure", "replace", "owner"),
            ("privbench", "zcdp", "add-remove", "row"),
        ],
    ),
)
def test_clone_keeps_its_promise(
    source, make_database, tmp_path, name, accounting, neighbours, unit
):
    privacy = {"accounting": accounting, "neighbours": neighbours, "unit": unit}
    toml = market.CONFIG if unit == "owner" else market.WITHOUT_OWNERS
    config, target = market.config(tmp_path / "ledger", toml, name, **privacy), make_database()
    report = clone_whole(source, target, config, output=tmp_path / "m.privbench")
    promise = Model.load(tmp_path / "m.privbench").promise
    assert promise == report.promise
    assert {key: getattr(promise, key) for key in privacy} == privacy
    assert unit == "owner" or set(promise.roots) == {
        f"public.{table}" for table in market.TABLES if table != "region"
    }
    assert 0 < promise.epsilon <= 5.0
    assert 0 <= promise.delta <= 1e-6
    # Pure accounting takes δ for category lists alone, which tables of few rows are not asked for.
    assert accounting == "pure" or promise.delta > 0
    spent = pipeline.ledger_show("", "market", str(tmp_path / "ledger")).state["releases"][0]
    assert spent["state"] == "closed"
    assert promise.epsilon <= spent["epsilon"] <= 5.0


def test_load_copies_public_tables_verbatim_and_scales_roots(source, make_database, model):
    plain, triple = make_database(), make_database()
    report = pipeline.load(model, plain, seed=1)
    query = "SELECT * FROM region ORDER BY code"
    assert market.ask(plain, query) == market.ask(source, query)
    assert report.public == ("public.region",)
    assert "public.region      4  PUBLIC: COPIED VERBATIM" in report.render()
    # The source's customers live in regions 1 and 2 only, and noise is far below a half.
    assert market.one(plain, "SELECT count(*) FROM customer WHERE region IN ('r1', 'r2')") > 50
    thrice = pipeline.load(model, triple, seed=1, scale=3).rows
    assert report.rows["public.customer"] == pytest.approx(60, abs=6)
    assert thrice["public.customer"] == pytest.approx(3 * report.rows["public.customer"], abs=6)
    assert thrice["public.region"] == 4
    whole(triple)


@pytest.mark.parametrize(
    "toml",
    market.some_slow(
        [(market.CONFIG,), (market.CONFIG.replace('identity = "market"', ""),)], [(market.CONFIG,)]
    ),
)
def test_load_with_replace_of_what_was_fitted_is_refused(
    source, make_database, model, tmp_path, toml
):
    """Neither by its own model nor by a clone of another source, whatever name is declared."""
    fitted = market.create(make_database(), 20)
    config = market.config(tmp_path / "ledger", toml, "independent")
    pipeline.fit(fitted, config, tmp_path / "m")
    (file,) = tmp_path.rglob("ledger.sqlite")
    spent = file.read_bytes()
    for refused in (
        lambda: pipeline.load(tmp_path / "m", fitted, replace=True, ledger=config.ledger.path),
        lambda: pipeline.load(model, fitted, replace=True, dry_run=True, ledger=config.ledger.path),
        lambda: pipeline.clone(source, fitted, config, replace=True),
    ):
        with pytest.raises(TargetError, match=r"has releases in the ledger.*drop and create it"):
            refused()
    assert market.one(fitted, "SELECT count(*) FROM customer") == 20
    assert list(tmp_path.rglob("ledger.sqlite")) == [file]
    assert file.read_bytes() == spent
    # Other databases are replaced as ever; and of one that is empty nothing is lost.
    market.execute(fitted, "DROP SCHEMA public CASCADE")
    for target in (make_database("CREATE TABLE mine (i int)"), fitted):
        pipeline.load(model, target, replace=True, ledger=config.ledger.path)
        whole(target)


def test_a_seed_makes_the_same_rows_in_a_load_and_in_files(make_database, model, tmp_path):
    """Files are read back by COPY, NULL and empty text included."""
    one, two, other = make_database(), make_database(), make_database()
    for dsn, seed in ((one, 5), (two, 5), (other, 6)):
        pipeline.load(model, dsn, seed=seed)
    dumps = [pg_dump(dsn, "--data-only", "--inserts") for dsn in (one, two, other)]
    assert dumps[0] == dumps[1] != dumps[2]
    pipeline.sample(model, tmp_path, seed=5)
    assert {path.name for path in tmp_path.iterdir()} == {f"public.{t}.csv" for t in market.TABLES}
    with psycopg.connect(other) as connection:
        connection.execute(f"TRUNCATE {', '.join(market.TABLES)}".encode())
        for table in ("region", "customer", "product", "purchase", "line", "refund"):
            data = (tmp_path / f"public.{table}.csv").read_bytes()
            head = data.split(b"\n", 1)[0].decode()
            statement = f"COPY {table} ({head}) FROM STDIN (FORMAT csv, HEADER)"
            with connection.cursor().copy(statement.encode()) as copy:
                copy.write(data)
    assert 0 < market.one(one, "SELECT count(note) FROM customer") < 60
    for table in market.TABLES:
        query = f"SELECT * FROM {table} ORDER BY {table}::text"
        assert market.ask(other, query) == market.ask(one, query), table


def test_fit_with_a_seed_is_stamped_not_private(source, make_database, model, tmp_path):
    config = market.config(tmp_path / "ledger", name="independent", seed=7)
    assert not pipeline.fit(source, config, tmp_path / "m").promise.private
    stored = Model.load(tmp_path / "m")
    assert not stored.promise.private
    assert stored.promise.sentence().startswith("NOT PRIVATE")
    assert pipeline.load(tmp_path / "m", make_database()).render().startswith("NOT PRIVATE")
    assert pipeline.sample(tmp_path / "m", tmp_path / "csv")[0].startswith("NOT PRIVATE")
    assert "NOT PRIVATE" not in pipeline.load(model, make_database()).render()
    shown = pipeline.ledger_show("", "market", str(tmp_path / "ledger"))
    assert shown.state["definitions"][0]["epsilon"] == float("inf")
    assert shown.to_json()["definitions"][0]["epsilon"] == "infinite"
    assert "NOT PRIVATE" in shown.render()


@pytest.mark.parametrize("name", market.QUICKEST)
def test_clone_of_empty_tables_is_whole(make_database, tmp_path, name):
    source = make_database(market.SCHEMA + "INSERT INTO region VALUES ('r1', 'only')")
    clone_whole(source, make_database(), market.config(tmp_path / "ledger", name=name))


def test_sample_says_which_rules_its_files_may_break(make_database, model, tmp_path):
    """A load repairs them."""
    assert not any("may break" in line for line in pipeline.sample(model, tmp_path / "market"))
    source = make_database(sql_of(__file__, "files_that_break_rules"))
    base = market.config(tmp_path, "", epsilon=3)
    pipeline.fit(source, pipeline.inspect(source, base=base).config, tmp_path / "m")
    said = pipeline.sample(tmp_path / "m", tmp_path / "files")
    start = next(place for place, line in enumerate(said) if "may break" in line)
    assert said[start + 1 :] == [
        "  public.stay (a, b): CHECK odd is not understood",
        "  public.stay: alone EXCLUDE USING gist (during WITH &&)",
    ]


def test_sample_says_which_files_psql_would_cut(make_database, tmp_path):
    """Public tables with a value, or with a column, whose line is psql's end of data."""
    source = make_database(sql_of(__file__, "files_that_psql_cuts"))
    public = "\n".join(f'[tables.{name}]\nrole = "public"' for name in ("rows", "heads", "whole"))
    model = tmp_path / "m"
    pipeline.fit(source, market.config(tmp_path / "l", public, epsilon=1.0), model)
    said = pipeline.sample(model, tmp_path / "files")
    cut = [line.split(":")[0] for line in said if "psql before version 18" in line]
    assert sorted(cut) == [str(tmp_path / f"files/public.{name}.csv") for name in ("heads", "rows")]


@pytest.mark.parametrize("name", market.QUICKEST)
@pytest.mark.parametrize("schema", ["ugly_shop", "ugly_odd"])
def test_clone_of_ugly_schemas_is_whole(make_database, tmp_path, schema, name):
    source, target = make_database(sql_of(__file__, schema)), make_database()
    config = pipeline.inspect(source, base=market.config(tmp_path, "", epsilon=20)).config
    report = pipeline.clone(source, target, market.learner(config, name))
    assert report.loaded.loose == ()
    assert schema_of(target) == schema_of(source)
    assert all(report.loaded.rows.values())


def test_clone_of_no_tables_works(make_database, tmp_path):
    config = market.config(tmp_path, "", epsilon=1)
    assert pipeline.clone(make_database(), make_database(), config).loaded.rows == {}


@pytest.mark.parametrize("name", market.QUICKEST)
def test_fit_after_extract_needs_no_source(server, make_database, tmp_path, name):
    source = market.create(make_database())
    config = market.config(tmp_path / "ledger", name=name, epsilon=50.0)
    draft = begin(source, config, Reporter())
    names = [stage for stage, _ in STAGES]
    assert names.index("extract") < names.index("totals")
    for stage, step in STAGES:
        step(draft)
        if stage == "extract":
            database = conninfo.conninfo_to_dict(source)["dbname"]
            market.execute(server.dsn, f"DROP DATABASE {database} WITH (FORCE)")
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(source)
    model = finish(draft)
    model.save(tmp_path / "m")
    assert draft.session.close().epsilon <= 50.0
    target = make_database()
    assert pipeline.load(tmp_path / "m", target).rows["public.customer"] > 20
    whole(target)


def test_clone_keeps_the_scalars_of_documents(make_database, tmp_path):
    """A key of one unit, and keys that are data, are never made."""
    source = make_database(sql_of(__file__, "documents"))
    config = pipeline.inspect(source, base=market.config(tmp_path, "", epsilon=8)).config
    assert config.tables["public.event"].columns["d"].paths == {
        "kind": "text",
        "sum.net": "numeric",
    }
    losses = pipeline.plan(config, source).losses
    assert [loss.remedy for loss in losses] == [
        f'tables."public.event".columns."{name}".paths = ["…"]' for name in ("plain", "quiet")
    ]
    assert all(loss.what.endswith("but for those that enough units hold") for loss in losses)
    section = config.tables["public.event"]
    section.columns["quiet"] = ColumnConfig(pieces=False)
    pipeline.clone(source, target := make_database(), config)
    found = dict(market.ask(target, "SELECT kind, count(*) FROM event GROUP BY 1"))
    assert found["in"] == pytest.approx(1000, rel=0.1)
    assert found["out"] == pytest.approx(3000, rel=0.1)
    for condition, rows in (
        ("big", pytest.approx(2000, rel=0.15)),
        ("(kind = 'in') <> (d ? 'tags')", pytest.approx(0, abs=100)),
        ("(d ? 'tags') = coalesce(d #>> '{on,os}' = 'ios', false)", pytest.approx(0, abs=100)),
        ("d #>> '{tags,1}' = 'b'", pytest.approx(500, abs=100)),
    ):
        assert market.one(target, f"SELECT count(*) FROM event WHERE {condition}") == rows
    keys = market.ask(target, "SELECT DISTINCT jsonb_object_keys(d || quiet) FROM event")
    assert {key for (key,) in keys} == {"kind", "sum", "lines", "all", "tags", "on"}
