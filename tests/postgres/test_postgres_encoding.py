"""Databases in other encodings than UTF-8: text is text, and bytes that are none are told."""

import json

import psycopg
import pytest
from market import execute, fail, some_slow, succeed
from psycopg import conninfo, sql
from sql_files import sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.errors import SchemaError

WORDS = {"LATIN1": ["Köln", "Århus", "Müñchen"], "EUC_JP": ["東京", "大阪", "京都"]}


def _database(server, encoding):
    name = f"in_{encoding.lower()}"
    execute(
        server.dsn,
        sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)),
        sql.SQL("CREATE DATABASE {} ENCODING {} LOCALE 'C' TEMPLATE template0").format(
            sql.Identifier(name), sql.Literal(encoding)
        ),
    )
    return conninfo.make_conninfo(server.dsn, dbname=name)


@pytest.mark.parametrize("encoding", some_slow([(name,) for name in WORDS], [("EUC_JP",)]))
def test_clone_of_an_encoding(encoding, server, make_database, tmp_path):
    dsn, words = _database(server, encoding), WORDS[encoding]
    with psycopg.connect(dsn, client_encoding="UTF8", autocommit=True) as owner:
        owner.execute(f'CREATE TABLE towns (id integer PRIMARY KEY, "{words[0]}" text)')
        owner.execute(
            "INSERT INTO towns SELECT g, (%s::text[])[g %% 3 + 1] FROM generate_series(1, 900) g",
            [words],
        )
    model, clone, workload = tmp_path / "m", make_database(), tmp_path / "w.json"
    succeed("inspect", dsn)
    succeed("fit", dsn, "--yes", "--epsilon", 8, "-o", model, "--ledger", tmp_path / "l")
    succeed("load", model, clone)
    with psycopg.connect(clone) as connection:
        column = sql.Identifier(words[0])
        found = connection.execute(sql.SQL("SELECT DISTINCT {} FROM towns").format(column))
        assert {row[0] for row in found} >= set(words)
    succeed("workload", "generate", dsn, "-o", workload, "--queries", 4)
    assert words[0] in json.dumps(json.loads(workload.read_text()), ensure_ascii=False)
    succeed("compare", dsn, clone, "-o", tmp_path / "r", "-w", workload, "--repeats", 1)


def test_fit_of_bytes_that_are_no_text_spends_nothing(server, tmp_path):
    dsn = _database(server, "SQL_ASCII")
    execute(
        dsn,
        "CREATE TABLE town (id integer PRIMARY KEY, name text)",
        "INSERT INTO town SELECT g, 'plain' FROM generate_series(1, 300) g",
    )
    succeed("inspect", dsn)
    ledger = tmp_path / "l"
    fitting = ["fit", dsn, "--yes", "--epsilon", 8, "--ledger", ledger]
    succeed(*fitting, "-o", tmp_path / "m")
    before = succeed("ledger", "show", dsn, "--ledger", ledger).output
    execute(dsn, "INSERT INTO town VALUES (1000, E'K\\366ln')")
    fail(3, ("public.town", "name", "UTF-8"), *fitting, "-o", tmp_path / "n")
    assert succeed("ledger", "show", dsn, "--ledger", ledger).output == before


def test_inspect_of_a_name_that_is_no_text_says_so(server):
    dsn = _database(server, "SQL_ASCII")
    execute(dsn, b'CREATE TABLE "K\xf6ln" (id integer)')
    fail(3, "UTF-8", "inspect", dsn)


def test_fit_of_a_column_replaced_after_consent_runs_nothing(server, tmp_path):
    dsn = _database(server, "SQL_ASCII")
    config = Config.loads('[database]\nidentity = "t"\n[privacy]\nepsilon = 1.0')
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("CREATE TABLE town (id integer PRIMARY KEY, name text)")
        catalog = pipeline.look(dsn, config)
        owner.execute(sql_of(__file__, "odd_cast"))
    with pytest.raises(SchemaError, match="changed"):
        pipeline.fit(dsn, config, tmp_path / "m", catalog=catalog)
