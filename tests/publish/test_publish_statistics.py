"""A database without rows is planned like the clone of full size."""

import json
import re
import shutil
from functools import partial

import market
import pytest
from bundles import change_facts, render, seal, start
from sql_files import sql_of

from privbench import pipeline
from privbench.errors import GateFailed, TargetError, UsageError
from privbench.pipeline import Reporter
from privbench.publish import load_statistics, publish, verify
from privbench.publish.planner import SERVER

FROM = (
    "purchase p JOIN customer c ON p.customer_id = c.id",
    "line l JOIN purchase p ON l.purchase_id = p.id JOIN product d ON l.product_id = d.id",
    "refund f JOIN line l USING (purchase_id, number)",
    "customer c JOIN region r ON c.region = r.code",
    "customer c JOIN customer o ON c.referrer = o.id",
    "refund f JOIN line l USING (purchase_id, number) JOIN purchase p ON p.id = l.purchase_id",
)
QUERIES = (
    *(f"SELECT * FROM {joined}" for joined in FROM),
    f"SELECT * FROM {FROM[0]} WHERE p.paid AND c.credit > 50",
    f"SELECT count(*) FROM {FROM[0]} WHERE c.id < 10",
    f"SELECT c.tier, count(*) FROM {FROM[0]} GROUP BY c.tier",
    f"SELECT * FROM {FROM[1]} WHERE d.status = 'active' AND l.quantity > 2",
    f"SELECT * FROM {FROM[1]} WHERE p.placed > '2021-01-01' ORDER BY p.placed LIMIT 5",
    f"SELECT * FROM {FROM[1]} WHERE d.id = 3",
    f"SELECT * FROM {FROM[3]} WHERE c.id BETWEEN 5 AND 9",
    "SELECT * FROM purchase p WHERE EXISTS (SELECT FROM line l WHERE l.purchase_id = p.id)",
    "SELECT * FROM line WHERE number > 1",
)


@pytest.fixture(scope="module")
def newest(make_database_on, each_server):
    """Makes databases on a server that takes statistics."""
    if each_server.major < SERVER:
        pytest.skip(f"needs PostgreSQL {SERVER}")
    return partial(make_database_on, each_server)


@pytest.fixture(scope="module")
def whole(newest):
    """A database that holds the clone."""
    return newest()


@pytest.fixture(scope="module")
def told(model, whole, tmp_path_factory):
    """A bundle with statistics."""
    folder = tmp_path_factory.mktemp("told") / "bundle"
    publish(model, folder, database=whole, queries=3, statistics=True)
    return folder


def plans(dsn):
    """Plans without costs, and expected rows of every table."""
    texts = [market.ask(dsn, f"EXPLAIN (COSTS OFF) {query}") for query in QUERIES]
    expected = {}
    for name in market.TABLES:
        (plan,) = market.one(dsn, f"EXPLAIN (FORMAT JSON) SELECT * FROM {name}")
        expected[name] = plan["Plan"]["Plan Rows"]
    return texts, expected


def files(dsn):
    """Pages of the tables and indexes."""
    return market.ask(
        dsn,
        "SELECT relname, pg_relation_size(oid) / 8192 FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i') ORDER BY 1",
    )


def test_an_empty_database_has_the_plans_of_the_clone(told, whole, newest):
    empty = newest()
    done = start(told, "empty", empty)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert re.search(r"take \d\d pages of your disk", verify(told).render())
    assert files(empty) == files(whole)
    assert plans(empty) == plans(whole)
    for table in json.loads((told / "statistics.json").read_text())["tables"]:
        assert market.one(empty, f"SELECT count(*) FROM {table['schema']}.{table['name']}") == 0
    keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f'"
    assert market.one(empty, keys) == market.one(whole, keys)


def test_a_load_of_statistics_only_is_planned_like_a_load(model, newest):
    whole, empty = newest(), newest()
    loaded = pipeline.load(model, whole, seed=3)
    report = load_statistics(model, empty, seed=3)
    assert files(empty) == files(whole)
    assert plans(empty) == plans(whole)
    assert report.rows == loaded.rows
    assert [market.one(empty, f"SELECT count(*) FROM {name}") for name in market.TABLES] == [0] * 6


def test_statistics_go_into_the_roles_own_tables_alone(model, newest):
    """Whoever owns the target may put others there as soon as the small clone is committed."""
    target = newest()
    role = market.weak_owner(target)

    class Between(Reporter):
        def stage(self, name):
            if name == "statistics":
                market.execute(
                    target,
                    "CREATE SCHEMA beside CREATE TABLE of_others (i integer) PARTITION BY LIST (i)",
                    "CREATE TABLE beside.one PARTITION OF beside.of_others FOR VALUES IN (1)",
                    f'ALTER TABLE beside.of_others OWNER TO "{role}"',
                    f'ALTER TABLE beside.one OWNER TO "{role}"',
                    *changes,
                )
            return super().stage(name)

    changes = [f'ALTER TABLE refund OWNER TO "{role}"']
    with pytest.raises(TargetError, match="refund in the target belongs to another role"):
        load_statistics(model, target, reporter=Between())
    with pytest.raises(UsageError, match="--scale must lie above 0"):
        load_statistics(model, target, scale=0.0)
    changes = []
    load_statistics(model, target, reporter=Between(), replace=True)
    assert market.one(target, "SELECT reloptions FROM pg_class WHERE relname = 'one'") is None
    assert market.one(target, "SELECT reltuples FROM pg_class WHERE relname = 'refund'") > 0


def test_fewer_rows_stand_for_a_clone_of_any_size(model, newest):
    whole, empty = newest(), newest()
    loaded = pipeline.load(model, whole, scale=8)
    report = load_statistics(model, empty, scale=8, rows=600)
    for name in ("public.customer", "public.purchase", "public.line"):
        assert 0.6 < report.rows[name] / loaded.rows[name] < 1.7, name
    distinct = (
        "SELECT n_distinct FROM pg_stats WHERE tablename = 'purchase' AND attname = 'customer_id'"
    )
    owners = "SELECT count(DISTINCT customer_id) FROM purchase"
    assert 0.5 < market.one(empty, distinct) / market.one(whole, owners) < 2
    _, expected = plans(empty)
    assert 0.7 < expected["line"] / report.rows["public.line"] < 1.4


def test_typed_and_inheriting_tables_have_their_size(newest, tmp_path):
    source, empty = newest(statements=sql_of(__file__, "unusual")), newest()
    tables = ("typed", "below", "later", "apart", "single")
    roles = "".join(f'[tables."public.{name}"]\nown = []\n' for name in tables)
    config = market.config(tmp_path / "ledger", roles, "independent", epsilon=20.0)
    pipeline.fit(source, config, tmp_path / "m")
    publish(tmp_path / "m", tmp_path / "bundle", database=newest(), queries=0, statistics=True)
    done = start(tmp_path / "bundle", "empty", empty)
    assert (done.returncode, done.stderr) == (0, "")
    sizes = market.ask(
        empty,
        "SELECT relname, relkind, pg_relation_size(oid) / 8192, relpages FROM pg_class"
        " WHERE relname ~ '^(typed|below|later|apart)' ORDER BY 1",
    )
    assert len(sizes) == 16, sizes
    for name, kind, pages, told in sizes:
        assert told > 4, name
        assert pages == told or kind == "i", name
        assert pages >= told or name in ("later_few_idx", "later_o_idx"), name
    empty = newest()
    load_statistics(tmp_path / "m", empty)
    assert market.one(empty, "SELECT n_distinct::text FROM pg_stats_ext")
    assert market.one(empty, "SELECT reltuples FROM pg_class WHERE relname = 'later'") > 1000


#: What a stranger says, and how it comes into the statistics.
HOSTILE = {
    "another table": lambda data: data["tables"][0].update(name="pg_class"),
    "another argument": lambda data: data["tables"][0]["columns"][0]["values"].update(
        {"null_frac', (SELECT 1), '": "0"}
    ),
    "the end of a text": lambda data: data["tables"][0]["columns"][0]["values"].update(
        null_frac="\0"
    ),
    "a table twice": lambda data: data["tables"].append(data["tables"][0]),
    "pages beyond the catalog": lambda data: data["tables"][0].update(pages=2**31),
}


@pytest.mark.parametrize("said", HOSTILE)
def test_statistics_of_strangers_are_refused(told, tmp_path, said):
    folder = shutil.copytree(told, tmp_path / "bundle")
    change_facts(folder / "statistics.json", HOSTILE[said])
    seal(folder)
    with pytest.raises(GateFailed, match=r"statistics\.json"):
        verify(folder)


def test_values_of_strangers_stay_constants(told, tmp_path, newest):
    """A value that would end its literal is text of another form, of which PostgreSQL warns."""

    def change(data):
        for table in data["tables"]:
            for column in table["columns"]:
                column["values"]["histogram_bounds"] = "'); CREATE TABLE evil (); --\\' \n\\! id"
            for name in ("region", "nowhere"):
                table["indexes"].append({"name": name, "pages": 12_345, "rows": 1.0})
            for name in ("ctid", "nowhere"):
                table["columns"].append({"column": name, "inherited": False, "values": {}})

    folder, empty = shutil.copytree(told, tmp_path / "bundle"), newest()
    change_facts(folder / "statistics.json", change)
    render(folder)
    seal(folder)
    verify(folder)
    assert start(folder, "empty", empty).returncode == 0
    assert market.one(empty, "SELECT to_regclass('public.evil')") is None
    pages = "SELECT relpages FROM pg_class WHERE oid = 'region'::regclass"
    assert market.one(empty, pages) < 12_345


def test_an_older_server_is_refused_before_the_load(model, each_server, make_database_on, tmp_path):
    dsn = make_database_on(each_server)
    if each_server.major >= SERVER:
        pytest.skip("takes statistics")
    with pytest.raises(UsageError, match="18"):
        publish(model, tmp_path / "bundle", database=dsn, statistics=True)
    market.fail(2, "18", "load", model, dsn, "--statistics-only")
    assert market.one(dsn, "SELECT to_regclass('public.customer')") is None
