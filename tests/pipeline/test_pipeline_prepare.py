"""What is refused, because the privacy contract could not be kept, and what a refusal says."""

import traceback

import market
import pyarrow as pa
import pytest
from psycopg import sql
from sql_files import cases, sql_of

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


@pytest.mark.parametrize(("said", "text"), cases(__file__, "prepare_refused.txt"))
def test_check_of_what_breaks_the_contract_is_refused(make_database, said, text):
    ddl, _, toml = text.replace("{accounts}", ACCOUNTS).partition("=>")
    with pytest.raises((ConfigError, SchemaError), match=said):
        pipeline.check(Config.loads(toml), make_database(ddl))


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


@pytest.mark.parametrize("options", ["kind = 'skip'", "paths = ['b']"])
def test_prepare_of_a_column_called_as_a_part_of_none_is_taken(make_database, options):
    dsn = make_database('CREATE TABLE t (d jsonb, "d\x1fa" text)')
    plan_of(dsn, Config.loads(f"[tables.'public.t'.columns.d]\n{options}"))


SHOP = """
CREATE TABLE customer (id int PRIMARY KEY, referrer int REFERENCES customer);
CREATE TABLE purchase (id int PRIMARY KEY, customer int NOT NULL REFERENCES customer);
"""


@pytest.mark.parametrize("toml", ["", "[tables.'public.purchase']\ntau = 3"])
def test_fit_with_open_owners_is_refused(make_database, tmp_path, toml):
    """Else every purchase would be protected by itself, under roles that nobody declared."""
    dsn, ledger = make_database(SHOP), tmp_path / "ledger"
    config = market.config(ledger, toml, epsilon=5.0)
    for refused in (
        lambda: pipeline.fit(dsn, config, tmp_path / "m"),
        lambda: pipeline.check(config, dsn),
    ):
        with pytest.raises(ConfigError, match=r"who owns the rows of public\.purchase\."):
            refused()
    assert not ledger.exists()
    for decided in ("own = []", "own = ['customer']"):
        config = Config.loads(f"[tables.'public.purchase']\n{decided}")
        assert pipeline.check(config, dsn).undecided == ("public.customer",)
    row = market.config(ledger, "", epsilon=5.0, unit="row")
    assert pipeline.fit(dsn, row, tmp_path / "m").promise.unit == "row"


def test_fit_with_a_failing_library_quotes_no_row(make_database, tmp_path, monkeypatch):
    dsn = make_database("CREATE TABLE pay (amount int); INSERT INTO pay VALUES (777123)")
    monkeypatch.setattr(
        OrderedReader, "read", lambda self, batch: {"amount": batch[self.alias()].cast(pa.int8())}
    )
    config = market.config(tmp_path / "ledger", "", epsilon=1.0)
    with pytest.raises(PrivbenchError, match=r"could not be read \(ArrowInvalid\)") as caught:
        pipeline.fit(dsn, config, tmp_path / "m")
    assert "777123" not in "".join(traceback.format_exception(caught.value))


def test_keys_of_a_table_left_out_are_loose_and_not_read_if_that_is_declared(make_database):
    dsn = make_database(
        "CREATE TABLE person (id int PRIMARY KEY);"
        "CREATE TABLE message (id int PRIMARY KEY, recipient int REFERENCES person, size int)"
    )
    head = "[database]\nexclude = ['public.person']\n"
    skip = "[tables.'public.message'.columns.recipient]\nkind = 'skip'"
    assert pipeline.inspect(dsn, base=Config.loads(head)).plan.coverage()
    plan = pipeline.check(Config.loads(head + skip), dsn).plan
    assert ("recipient", "NULL, not read") in {(line.column, line.how) for line in plan.coverage()}
    schema = pipeline.look(dsn, Config.loads(head)).schema
    assert schema.table("message").loose == ("recipient",)
    assert "loose" not in schema.to_json()["tables"][0]


@pytest.mark.parametrize("value", [None, [1, None], float("nan"), {"a": float("inf")}])
def test_options_that_no_model_can_hold_are_refused(value):
    with pytest.raises(ValueError, match="no option may be"):
        SynthesizerConfig(options={"x": value})
    held = SynthesizerConfig(options={"x": {"a": ["b", 2.5, True]}})
    assert Config.loads(Config(synthesizer=held).dumps()).synthesizer == held
