"""What the catalog states: schemas, rights, and bounds of partitions."""

import json
import subprocess
from pathlib import Path

import pytest
from plans import offered_by
from psycopg import conninfo
from sql_files import cases, database_of, sql_of

from privbench.errors import AccessDenied, SchemaError
from privbench.postgres import binaries
from privbench.postgres.connect import connect
from privbench.postgres.introspect import check_access, introspect
from privbench.rules.facts import BOUNDS, column_rules, exclusions
from privbench.rules.texts import unkept_checks
from privbench.schema import TableName

GOLDEN = Path(__file__).parent / "golden"
UGLY = (GOLDEN / "ugly.sql").read_text(encoding="utf-8")
ugly = database_of(UGLY)


def test_introspect_of_the_ugly_schema_gives_the_golden_file(each_server, make_database_on):
    with connect(make_database_on(each_server, statements=UGLY), autocommit=True) as connection:
        connection.execute("SET search_path = public, pg_catalog")
        schema = introspect(connection)
        assert connection.execute("SHOW search_path").fetchone() == ("public, pg_catalog",)
    assert schema.server_version // 10000 == each_server.major
    found = json.loads(json.dumps(schema.to_json()))
    found.pop("server_version")
    golden = json.loads((GOLDEN / "ugly.json").read_text(encoding="utf-8"))
    assert found == golden
    assert schema.table("public.customer").comment == "people who buy"


def test_introspect_of_keys_partitions_and_capitals_names_what_is_meant(make_database):
    dsn = make_database("""
        CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE p1 PARTITION OF p DEFAULT;
        CREATE TABLE c (a int REFERENCES p1 (id), b int REFERENCES p (id));
    """)
    with connect(dsn) as connection:
        keys = introspect(connection).table("c").foreign_keys
    assert {(key.columns, str(key.ref_table)) for key in keys} == {
        (("a",), "public.p"),
        (("b",), "public.p"),
    }
    # A partition in a chosen schema of a root that is not.
    with connect(make_database()) as connection:
        connection.execute(
            "CREATE SCHEMA other; CREATE TABLE p (id int) PARTITION BY RANGE (id);"
            "CREATE TABLE other.p1 PARTITION OF p DEFAULT"
        )
        assert introspect(connection, ["public"]).table("p").partitions == (
            TableName("other", "p1"),
        )
        with pytest.raises(SchemaError, match=r"partition of public\.p"):
            introspect(connection, ["other"])
    # Capitals that may mean two tables are refused.
    with connect(make_database()) as connection:
        connection.execute('CREATE TABLE "Order" (id int); CREATE TABLE "order" (id int)')
        connection.execute('CREATE TABLE "Alone" (id int)')
        for name, words in (("Order", "either of two"), ("Alone", "does not exist")):
            with pytest.raises(SchemaError, match=words) as caught:
                introspect(connection, exclude=[name])
            assert f'write "{name}" in double quotes' in str(caught.value)
        kept = introspect(connection, exclude=['"Order"', '"Alone"'])
        assert [table.key for table in kept] == ["public.order"]
        kept = introspect(connection, exclude=["ORDER"])
        assert [table.key for table in kept] == ['public."Alone"', 'public."Order"']


def test_introspect_without_tables_drops_the_keys_into_them(ugly):
    with connect(ugly) as connection:
        schema = introspect(connection, exclude=["public.customer", "public.buyers"])
        assert "public.customer" not in schema
        names = [key.name for table in schema for key in table.foreign_keys]
        assert "Order.Items_customer_fkey" not in names
        assert "self ref" in names
        assert TableName("public", "customer_id_seq") not in [s.name for s in schema.sequences]
        assert schema.views == ()
        only = introspect(connection, ["Odd Shop"])
        assert [table.key for table in only] == ['"Odd Shop"."Order.Items"']
        assert [str(s.name) for s in only.sequences] == ['"Odd Shop"."Order.Items_serial_no_seq"']


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schemas": ["nowhere"]}, "no schema 'nowhere'.*Odd Shop"),
        ({"exclude": ["public.nothing"]}, "does not exist"),
        ({"exclude": ["public.event_rest"]}, r"Leave out public\.event"),
    ],
)
def test_introspect_of_wrong_choices_is_refused(ugly, options, words):
    with connect(ugly) as connection, pytest.raises(SchemaError, match=words):
        introspect(connection, **options)


def test_introspect_leaves_out_objects_of_extensions_and_temporary_tables(server, make_database):
    name = offered_by(server, "vector", "hstore")
    with connect(make_database(), autocommit=True) as connection:
        connection.execute(f"CREATE EXTENSION {name}".encode())
        connection.execute("CREATE TEMPORARY TABLE scratch (i int)")
        connection.execute(f"CREATE TABLE t (v {name})".encode())
        schema = introspect(connection)
    assert [table.key for table in schema] == ["public.t"]
    assert schema.extensions == (name,)
    assert schema.table("t").column("v").type.extension == name


@pytest.fixture
def reader(ugly):
    with connect(ugly, autocommit=True) as admin:
        admin.execute('CREATE ROLE "Read er" LOGIN')
        yield admin, conninfo.make_conninfo(ugly, user="Read er")
        admin.execute('DROP OWNED BY "Read er"')
        admin.execute('DROP ROLE "Read er"')


def test_check_access_names_every_missing_grant_at_once(reader):
    admin, dsn = reader
    with connect(dsn, autocommit=True) as connection:
        schema = introspect(connection)
        with pytest.raises(AccessDenied) as caught:
            check_access(connection, schema)
        missing = caught.value.remedy.removeprefix("Missing: ")
        assert 'GRANT USAGE ON SCHEMA "Odd Shop" TO "Read er";' in missing
        assert 'GRANT SELECT ON "dots.and""quotes"."note" TO "Read er";' in missing
        assert 'GRANT SELECT ON "public"."event_2023_eu" TO "Read er";' in missing
        assert 'SCHEMA "public"' not in missing
        admin.execute(missing.encode())
        check_access(connection, schema)


PATTERNS = sql_of(__file__, "patterns").splitlines()
sales = database_of(sql_of(__file__, "sales"))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_introspect_by_patterns_chooses_what_psql_does(sales, pattern):
    psql = binaries.find("psql", binaries.machine_directories() + binaries.package_directories())
    if not psql:
        pytest.skip("there is no psql")
    command = [psql[0].path, conninfo.make_conninfo(sales), "-XAtq", "-c", rf"\dt {pattern}"]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    known = sorted(tuple(line.split("|")[:2]) for line in done.stdout.splitlines())
    with connect(sales) as connection:
        try:
            found = introspect(connection, tables=[pattern])
        except SchemaError:
            assert known == []
        else:
            assert [(table.name.schema, table.name.name) for table in found] == known


@pytest.mark.parametrize(
    ("chosen", "tables", "views"),
    [
        ({"schemas": ["oth*"]}, ["other.sale_2"], ["other.sale_v"]),
        ({"tables": ["sale_*"]}, ["other.sale_2"], ["other.sale_v"]),
        ({"tables": ["sale_*"], "exclude": ["*_v"]}, ["other.sale_2"], []),
        ({"schemas": ["public"], "tables": ["s*"], "exclude": ['"S*']}, None, None),
        ({"schemas": ["public"], "tables": ["sale_*"]}, None, None),
        ({"tables": ["public.Sale"]}, ['public."Sale"'], []),
        ({"tables": ["a.b.c"]}, None, None),
    ],
)
def test_introspect_by_several_choices_takes_them_together(sales, chosen, tables, views):
    with connect(sales) as connection:
        if tables is None:
            with pytest.raises(SchemaError, match=r"does not exist|is not a name"):
                introspect(connection, **chosen)
            return
        found = introspect(connection, **chosen)
    assert [table.key for table in found] == tables
    assert [str(name) for name in found.views] == views
    assert set(found.schemas) == {table.name.schema for table in found}


@pytest.fixture(scope="module")
def trees(make_database):
    dsn = make_database(sql_of(__file__, "partitions"))
    with connect(dsn) as connection:
        return dsn, introspect(connection)


@pytest.mark.parametrize(
    ("table", "column", "low", "high", "values"),
    [
        ("day", "at", "2021-01-01", "2024-01-01", None),
        ("num", "n", "-10", "100", None),
        ("lst", "k", None, None, ("it's", "a, b (c)", "z")),
        ("ids", "id", None, None, ("1", "-2")),
        ("half", "n", None, "5", None),
    ],
)
def test_column_limits_of_partitions_are_their_bounds(trees, table, column, low, high, values):
    found = trees[1].table(table)
    limits = column_rules(found, found.column(column))
    assert {item.low for item in limits} - {None} == {low} - {None}
    assert {item.high for item in limits} - {None} == {high} - {None}
    assert next((item.values for item in limits if item.values), None) == values
    assert not unkept_checks(found)


@pytest.mark.parametrize("table", ["rest", "expr", "hash", "none", "txts"])
def test_bounds_of_partitions_that_any_row_may_fit_are_no_check(trees, table):
    """Nor are those of texts in several partitions: texts do not compare by their bytes."""
    assert trees[1].table(table).checks == ()


def test_bounds_of_partitions_are_checks_that_the_server_understands(trees):
    (check,) = trees[1].table("txt").checks
    assert check.expression == "(\"c\" >= 'b') AND (\"c\" < 'm')"
    dsn, schema = trees
    with connect(dsn) as connection:
        for table in schema:
            for check in table.checks:
                assert check.name == BOUNDS
                text = f"SELECT FROM {table.name} WHERE {check.expression}"
                connection.execute(text.encode())


@pytest.mark.parametrize(("unique", "tables"), cases(__file__, "one_to_one"))
def test_a_key_is_one_to_one_where_a_unique_compares_as_it_does(
    each_server, make_database_on, unique, tables
):
    if each_server.major > 17 and "COLLATE ci" in tables:
        pytest.skip("no ICU here, and PostgreSQL 18 refuses keys between such collations")
    with connect(make_database_on(each_server, statements=tables)) as connection:
        (key,) = introspect(connection).table("c").foreign_keys
    assert key.unique == (unique == "one to one")


def test_what_a_partition_excludes_is_a_rule_of_the_whole_table(make_database):
    """Of rows with the partition's one value, once for all of its kind, and not its copies."""
    dsn = make_database(sql_of(__file__, "partition_exclusions"))
    with connect(dsn) as connection:
        listed = list(exclusions(introspect(connection).table("stay")))
    assert listed == [
        (("hall",), ("a", "b"), False, (("paid", "true", True),)),
        ((), ("a", "b"), False, ()),
    ]
