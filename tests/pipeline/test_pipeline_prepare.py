"""What is refused, because the privacy contract could not be kept, and what a refusal says."""

import traceback

import pyarrow as pa
import pytest
from psycopg import sql
from sql_files import sql_of

from privbench import pipeline
from privbench.config import Config, SynthesizerConfig
from privbench.encoding.ordered import OrderedReader
from privbench.errors import ConfigError, PrivbenchError, SchemaError
from privbench.pipeline.prepare import prepare
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.postgres.statement import build

ACCOUNTS = sql_of(__file__, "accounts")


def plan_of(dsn: str, config: Config):
    with connect(dsn) as connection:
        return prepare(introspect(connection), config)


@pytest.mark.parametrize(
    ("ddl", "own", "said"),
    [
        # Two accounts may share an id: whose post it is would depend on which of them is there.
        *(
            (f"{ACCOUNTS} CREATE TABLE c (id int PRIMARY KEY, k int REFERENCES account_b (id))",
             own, "not unique in the whole table")
            for own in ("[]", "['k']")
        ),
        ("CREATE TABLE p (a int, k int GENERATED ALWAYS AS (a + 1) STORED UNIQUE);"
         "CREATE TABLE c (k int REFERENCES p (k))", "[]", "stands on a generated column"),
        ("CREATE TABLE p (k int PRIMARY KEY); CREATE TABLE c (a int,"
         " k int GENERATED ALWAYS AS (a + 1) STORED REFERENCES p (k))",
         "[]", "stands on a generated column"),
    ],
)  # fmt: skip
def test_prepare_of_keys_that_tell_no_owner_is_refused(make_database, ddl, own, said):
    with pytest.raises(SchemaError, match=said):
        plan_of(make_database(ddl), Config.loads(f"[tables.'public.c']\nown = {own}"))


def test_prepare_of_a_key_unique_in_the_whole_table_keeps_it(make_database):
    posts = """CREATE TABLE post (id int PRIMARY KEY, kind text, account int,
      FOREIGN KEY (account, kind) REFERENCES account_b (id, kind));"""
    config = Config.loads("[tables.'public.post']\nown = ['kind', 'account']")
    plan = plan_of(make_database(ACCOUNTS + posts), config)
    assert plan.spec.ancestors("public.post") == ("public.account",)


def test_prepare_asks_no_order_of_dates_that_are_not_read(make_database):
    dsn = make_database("CREATE TABLE t (id int PRIMARY KEY, created_at date NOT NULL)")
    for kind, created in (("auto", "created_at"), ("skip", "")):
        config = Config.loads(f"[tables.'public.t'.columns.created_at]\nkind = '{kind}'")
        assert plan_of(dsn, config).spec.tables["public.t"].created == created


def test_paths_are_read_of_a_row_of_documents_that_cannot_be_printed(make_database):
    names = [f"d{number}" for number in range(9)]
    document = "('[' || repeat('1e131071,', 1000) || '1]')::jsonb"
    columns, values = ", ".join(f"{n} jsonb" for n in names), ", ".join([document] * len(names))
    dsn = make_database(f"CREATE TABLE t ({columns}); INSERT INTO t VALUES ({values})")
    readers = plan_of(dsn, Config()).documents.tables["public.t"].readers
    texts = [text for n in names for text, _ in readers[n].select(sql.Identifier(n))]
    with connect(dsn) as connection:
        (found,) = connection.execute(build("SELECT {} FROM public.t", texts)).fetchall()
    assert found == (None,) * len(names)


def test_prepare_of_a_column_called_as_a_part_of_another_is_refused(make_database):
    dsn = make_database('CREATE TABLE t (d jsonb, "d\x1fa" text)')
    for options in ("kind = 'skip'", "paths = ['b']"):
        plan_of(dsn, Config.loads(f"[tables.'public.t'.columns.d]\n{options}"))
    with pytest.raises(SchemaError, match="a part of the column d"):
        plan_of(dsn, Config.loads("[tables.'public.t'.columns.d]\npaths = ['a']"))


SHOP = """
CREATE TABLE customer (id int PRIMARY KEY, referrer int REFERENCES customer);
CREATE TABLE purchase (id int PRIMARY KEY, customer int NOT NULL REFERENCES customer);
"""


@pytest.mark.parametrize("toml", ["", "[tables.'public.purchase']\ntau = 3"])
def test_fit_with_open_owners_is_refused(make_database, tmp_path, toml):
    """Else every purchase would be protected by itself, under roles that nobody declared."""
    dsn, ledger = make_database(SHOP), tmp_path / "ledger"
    head = f"[privacy]\nepsilon = 5\n[ledger]\npath = '{ledger}'\n"
    with pytest.raises(ConfigError, match=r"who owns the rows of public\.purchase\."):
        pipeline.fit(dsn, Config.loads(head + toml), tmp_path / "m")
    with pytest.raises(ConfigError, match="who owns the rows"):
        pipeline.check(Config.loads(head + toml), dsn)
    assert not ledger.exists()
    for decided in ("own = []", "own = ['customer']"):
        config = Config.loads(f"{head}[tables.'public.purchase']\n{decided}")
        assert pipeline.check(config, dsn).undecided == ("public.customer",)
    row = Config.loads(head.replace("epsilon", "unit = 'row'\nepsilon"))
    assert pipeline.fit(dsn, row, tmp_path / "m").promise.unit == "row"


def test_fit_with_a_failing_library_quotes_no_row(make_database, tmp_path, monkeypatch):
    dsn = make_database("CREATE TABLE pay (amount int); INSERT INTO pay VALUES (777123)")
    monkeypatch.setattr(
        OrderedReader, "read", lambda self, batch: {"amount": batch[self.alias()].cast(pa.int8())}
    )
    config = Config.loads(f"[privacy]\nepsilon = 1\n[ledger]\npath = '{tmp_path / 'ledger'}'")
    with pytest.raises(PrivbenchError, match=r"could not be read \(ArrowInvalid\)") as caught:
        pipeline.fit(dsn, config, tmp_path / "m")
    assert "777123" not in "".join(traceback.format_exception(caught.value))


def test_check_of_keys_of_a_table_left_out_is_refused(make_database):
    """Bounds around the one key that all rows hold would show whose it is."""
    dsn = make_database(
        "CREATE TABLE person (id int PRIMARY KEY);"
        "CREATE TABLE message (id int PRIMARY KEY, recipient int REFERENCES person, size int)"
    )
    head = "[database]\nexclude = ['public.person']\n"
    with pytest.raises(
        ConfigError, match=r"message\.recipient: .*keys of a table that is left out"
    ):
        pipeline.check(Config.loads(head), dsn)
    assert pipeline.inspect(dsn, base=Config.loads(head)).plan.coverage()
    skip = "[tables.'public.message'.columns.recipient]\nkind = 'skip'"
    lines = {
        line.column: line.how
        for line in pipeline.check(Config.loads(head + skip), dsn).plan.coverage()
    }
    assert lines["recipient"] == "NULL, not read"
    with connect(dsn) as connection:
        schema = introspect(connection, exclude=["public.person"])
    assert schema.table("message").loose == ("recipient",)
    assert "loose" not in schema.to_json()["tables"][0]


@pytest.mark.parametrize("value", [None, [1, None], float("nan"), {"a": float("inf")}])
def test_options_that_no_model_can_hold_are_refused(value):
    with pytest.raises(ValueError, match="no option may be"):
        SynthesizerConfig(options={"x": value})
    held = SynthesizerConfig(options={"x": {"a": ["b", 2.5, True]}})
    assert Config.loads(Config(synthesizer=held).dumps()).synthesizer == held
