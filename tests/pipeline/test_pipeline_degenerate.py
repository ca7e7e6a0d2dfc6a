"""Degenerate tables through a whole clone on a real PostgreSQL, with the default synthesizer."""

import market
import pytest
from integrity import schema_of
from sql_files import sql_of

from privbench import pipeline
from privbench.errors import SchemaError
from privbench.pipeline import extract

#: Every table is a root: each has the whole budget for itself.
TABLES = sql_of(__file__, "degenerate")
WIDE = "CREATE TABLE wide ({}); INSERT INTO wide SELECT {} FROM generate_series(1, 500) i;".format(
    ", ".join(f"c{k} smallint CHECK (c{k} BETWEEN 0 AND 4)" for k in range(100)),
    ", ".join(f"(i * {k + 1} / 7) % 5" for k in range(100)),
)
ROWS = {"no_rows": 0, "one_row": 1, "two_rows": 2, "all_null": 300, "constant": 300}
ROWS |= {"distinct_rows": 300, "one_column": 300, "only_key": 300}


def clone(make_database, folder, ddl: str, epsilon: float, **how) -> tuple[str, str]:
    """DSNs of the source and of its clone."""
    source, target = make_database(ddl), make_database()
    config = pipeline.inspect(source, base=market.config(folder, "", epsilon=epsilon)).config
    assert config.synthesizer.name == "privbench"
    pipeline.clone(source, target, config, seed=1, **how)
    assert schema_of(target) == schema_of(source)
    return source, target


def test_tables_keep_their_shape_where_the_budget_is_rich(make_database, tmp_path):
    _, target = clone(make_database, tmp_path, TABLES, 1000.0)
    for table, rows in ROWS.items():
        assert abs(market.one(target, f"SELECT count(*) FROM {table}") - rows) <= 3, table
    for column in ("a", "b", "t", "d", "f"):
        assert market.one(target, f"SELECT count({column}) FROM all_null") <= 3, column
    assert market.one(target, "SELECT count(*) FROM constant WHERE b") >= 297
    assert market.one(target, "SELECT count(*) FROM constant WHERE a BETWEEN 30 AND 60") >= 290
    spread = market.ask(target, "SELECT count(DISTINCT a), count(DISTINCT f) FROM distinct_rows")
    assert min(spread[0]) > 150
    assert market.one(target, "SELECT count(DISTINCT a) FROM one_column WHERE a < 9") == 9


@pytest.mark.parametrize("epsilon", [0.001, pytest.param(3.2, marks=pytest.mark.slow)])
def test_tables_survive_a_scarce_budget(make_database, tmp_path, epsilon):
    """Sizes are off by the noise of a total, and by no more than thirty times its deviation."""
    scale = min(1.0, 10 * epsilon)
    _, target = clone(make_database, tmp_path, TABLES, epsilon, scale=scale)
    for table, rows in ROWS.items():
        made = market.one(target, f"SELECT count(*) FROM {table}")
        assert abs(made - scale * rows) <= scale * 30 * 20 * 2**0.5 / epsilon + 1, table


@pytest.mark.slow
def test_a_hundred_columns(make_database, tmp_path):
    source, target = clone(make_database, tmp_path, WIDE, 3.2)
    assert market.one(target, "SELECT count(*) FROM wide") == pytest.approx(500, abs=250)
    # One column alone is mostly noise; over all of them it averages out.
    zeros = " + ".join(f"avg((c{k} = 0)::int)" for k in range(100))
    share = f"SELECT (({zeros}) / 100)::float8 FROM wide"
    assert market.one(target, share) == pytest.approx(market.one(source, share), abs=0.1)


def test_public_tables_without_columns_of_their_own_keep_their_rows(
    make_database, tmp_path, monkeypatch
):
    source, target = make_database(sql_of(__file__, "bare")), make_database()
    toml = '[tables."public.bare"]\nrole = "public"\n[tables."public.made"]\nrole = "public"\n'
    config = pipeline.inspect(source, base=market.config(tmp_path, toml, epsilon=8.0)).config
    pipeline.clone(source, target, config, output=tmp_path / "m")
    pipeline.load(tmp_path / "m", target, replace=True)
    assert market.one(target, "SELECT count(*) FROM bare") == 1
    assert market.ask(target, "SELECT n FROM made") == [(7,), (7,)]
    pipeline.sample(tmp_path / "m", tmp_path / "files", file_format="parquet", tables=["bare"])
    assert not [*(tmp_path / "files").iterdir()]  # DuckDB opens none without columns
    monkeypatch.setattr(extract, "MAX_EMPTY_ROWS", 1)
    with pytest.raises(SchemaError, match=r"public\.made.*rows without a column"):
        pipeline.fit(source, config, tmp_path / "m2")
    releases = pipeline.ledger_show(source, None, config.ledger.path).state["releases"]
    assert [item["epsilon"] > 0 for item in releases] == [True, False]
