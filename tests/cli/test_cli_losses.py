"""--strict and --as-role, as users meet them."""

from __future__ import annotations

import uuid

import market
import psycopg
import pytest
from click.testing import CliRunner
from psycopg import conninfo, sql

from privbench.cli import main

#: Once it is filled, its unique index is violated: by the source's rows, and by the clone's.
VIEW = """
CREATE MATERIALIZED VIEW tiers AS SELECT tier FROM customer WITH NO DATA;
CREATE UNIQUE INDEX tiers_tier ON tiers (tier);
"""
FOREIGN = """
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE elsewhere (i int) SERVER nowhere;
"""


def run(*arguments):
    return CliRunner().invoke(main, [str(item) for item in arguments])


def script(dsn, text):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(text)


@pytest.fixture(scope="module")
def source(make_database):
    dsn = make_database()
    market.create(dsn, 40)
    script(dsn, VIEW)
    return dsn


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("config")
    path = folder / "market.toml"
    path.write_text(f'{market.CONFIG}[ledger]\npath = "{folder / "ledger"}"\n', encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(source, config, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    assert run("fit", source, "-c", config, "--epsilon", "50", "-o", path).exit_code == 0
    return path


def test_what_a_clone_lacks_is_said_and_strict_makes_it_an_exit_code(model, make_database):
    line = "the materialised view public.tiers stays without data: a unique constraint is violated"
    plain = run("load", model, make_database())
    assert plain.exit_code == 0, plain.stderr
    assert line in plain.stdout
    target = make_database()
    strict = run("load", model, target, "--strict")
    assert strict.exit_code == 1
    assert line in strict.stdout
    assert "as --strict demands" in strict.stderr
    # The clone is there all the same.
    assert market.one(target, "SELECT count(*) > 0 FROM customer") is True


def test_a_strict_clone_without_a_foreign_table_costs_nothing(make_database, config, tmp_path):
    source, target = make_database(), make_database()
    market.create(source, 20)
    script(source, FOREIGN)
    arguments = (source, target, "-c", config, "--yes", "--ledger", tmp_path / "ledger")
    strict = run("clone", *arguments, "--strict")
    assert strict.exit_code == 1
    assert "stays behind: foreign table public.elsewhere" in strict.stderr
    assert not list(tmp_path.rglob("*.jsonl")), "nothing is spent"
    plain = run("clone", *arguments)
    assert plain.exit_code == 0, plain.stderr
    assert "stays behind: foreign table public.elsewhere" in plain.stdout
    assert list(tmp_path.rglob("*.jsonl"))


def test_a_load_as_a_weak_role(model, make_database):
    target, role = make_database(), f"loader {uuid.uuid4().hex[:8]}"
    name = conninfo.conninfo_to_dict(target)["dbname"]
    script(target, sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
    owned = sql.SQL("ALTER DATABASE {} OWNER TO {}")
    script(target, owned.format(sql.Identifier(name), sql.Identifier(role)))
    loaded = run("load", model, target, "--as-role", role)
    assert loaded.exit_code == 0, loaded.stderr
    owner = "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 2200"
    assert market.ask(target, owner) == [(role,)]
    strong = run("load", model, make_database(), "--as-role", "postgres")
    assert strong.exit_code == 3
    assert "is a superuser" in strong.stderr
