"""A small market: every kind of key and column that a clone must honour, on a real PostgreSQL."""

import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg import conninfo, sql
from sql_files import sql_of

from privbench import pipeline
from privbench.cli import main
from privbench.config import Config

#: The tool's own synthesizers; those of other packages have tests of their own.
CORE = ("independent", "privbench")

#: Owners: customer → purchase (nullable) → line (composite key) → refund (composite reference).
SCHEMA = sql_of(__file__, "market_schema")

TABLES = ("customer", "line", "product", "purchase", "refund", "region")

CONFIG = sql_of(__file__, "market.toml")
WITHOUT_OWNERS = re.sub(r"\nown = .*", "", CONFIG)


#: Neighbours and units.
RELATIONS = (("add-remove", "owner"), ("replace", "owner"), ("add-remove", "row"))


def some_slow(cases: Iterable[tuple[object, ...]], quick: Iterable[tuple[object, ...]]) -> list:
    """Parameters of a test; those not among the quick ones run with the slow tests."""
    every, now = list(cases), list(quick)
    assert set(now) <= set(every)
    return [pytest.param(*c, marks=() if c in now else (pytest.mark.slow,)) for c in every]


#: Of a config file, for tests that any synthesizer serves.
INDEPENDENT = '[synthesizer]\nname = "independent"\n'

#: The same as parameters of a test by name; most run with the slow tests.
BY_NAME = some_slow([(name,) for name in CORE], [("privbench",)])
#: For what does not depend on the synthesizer: the quickest now, the others with the slow tests.
QUICKEST = some_slow([(name,) for name in CORE], [("independent",)])


def run(*words: object, **more: Any) -> Result:
    """A command line of privbench."""
    return CliRunner().invoke(main, [str(word) for word in words], **more)


def succeed(*words: object, **more: Any) -> Result:
    """The same, which must end well."""
    result = run(*words, **more)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def fail(code: int, said: str | Iterable[str], *words: object, **more: Any) -> Result:
    """The same, which must end with this exit code and say all of this on stderr."""
    result = run(*words, **more)
    assert result.exit_code == code, (result.output, result.exception)
    for text in [said] if isinstance(said, str) else said:
        assert text in result.stderr
    return result


def create(dsn: str, customers: int = 60) -> str:
    """Schema and rows; the same DSN."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SCHEMA)
        fill(connection, customers)
    return dsn


def create_with_hub(dsn: str) -> str:
    """Few customers, one with far more purchases, lines and references than the others."""
    execute(
        create(dsn, 24),
        "INSERT INTO purchase (customer_id, placed, paid)"
        " SELECT 2, timestamp '2021-01-01' + i * interval '1 day', true"
        " FROM generate_series(1, 40) i",
        "INSERT INTO line (purchase_id, number, product_id, quantity, price)"
        " SELECT id, k, 1, 3, 5 FROM purchase, generate_series(1, 2) k WHERE id > 48",
    )
    return dsn


def fill(connection: psycopg.Connection[tuple[object, ...]], customers: int) -> None:
    """Rows by arithmetic, the same in every run and on every server; the tables are empty."""
    connection.execute(sql_of(__file__, "market_rows", n=customers).encode())


def config(
    ledger: object = None, toml: str = CONFIG, name: str | None = None, **privacy: object
) -> Config:
    """The market's config: region public, one chain of owners; of a synthesizer by name."""
    found = Config.loads(toml).with_privacy(**privacy)
    found = found.changed("ledger", path=None if ledger is None else str(ledger))
    return learner(found, name) if name else found


def changed_config(change: str) -> str:
    """The market's config with lines at its end, or in the place of a text of it (before =>)."""
    old, _, new = (part.strip() for part in change.rpartition("=>"))
    assert old in CONFIG
    return CONFIG.replace(old, new) if old else f"{CONFIG}\n{new}"


def config_file(folder: Path, *more: str, toml: str = CONFIG) -> Path:
    """The market's config as a file, with a ledger in its folder; more lines at its end."""
    path = folder / "market.toml"
    ledger = f'[ledger]\npath = "{folder / "ledger"}"\n'
    path.write_text("\n".join([toml, ledger, *more]), encoding="utf-8")
    return path


def fitted_model(source: str, folder: Path, epsilon: float = 200.0) -> Path:
    """A model of independent columns, fitted with little noise."""
    path = folder / "m.privbench"
    pipeline.fit(source, config(folder / "ledger", name="independent", epsilon=epsilon), path)
    return path


def with_little_noise(
    ledger: object, name: str, neighbours: str, unit: str, **more: object
) -> Config:
    """A config under which every learner grows its structure on few rows."""
    toml = CONFIG if unit == "owner" else WITHOUT_OWNERS
    return config(ledger, toml, name, neighbours=neighbours, unit=unit, epsilon=2000.0, **more)


def learner(base: Config, name: str) -> Config:
    """The config with another synthesizer."""
    return base.changed("synthesizer", name=name)


def execute(dsn: str, *statements: str | sql.Composable) -> None:
    """Statements, each in a transaction of its own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode() if isinstance(statement, str) else statement)


def weak_owner(dsn: str) -> str:
    """A new role, which owns this database and has no other right."""
    role, name = f"role {uuid.uuid4().hex[:12]}", str(conninfo.conninfo_to_dict(dsn)["dbname"])
    execute(
        dsn,
        sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)),
        sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(name), sql.Identifier(role)),
    )
    return role


def ask(dsn: str, query: str) -> list[tuple[object, ...]]:
    """All rows of a query."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode()).fetchall()


def one(dsn: str, query: str) -> object:
    """The first value of a query."""
    return ask(dsn, query)[0][0]


def counts(dsn: str) -> dict[str, int]:
    """Exact rows of every table."""
    return {name: int(str(one(dsn, f"SELECT count(*) FROM {name}"))) for name in TABLES}


@pytest.fixture(scope="session")
def source(make_database):
    """A market of sixty customers, which no test changes."""
    return create(make_database())


@pytest.fixture(scope="session")
def model(source, tmp_path_factory):
    """A model of that market, with little noise."""
    return fitted_model(source, tmp_path_factory.mktemp("model"))
