import contextlib

import psycopg
import pytest
from click.testing import CliRunner
from market import execute
from psycopg import conninfo
from sql_files import sql_of

from privbench.cli import main
from privbench.errors import ConnectionFailed, UsageError
from privbench.postgres.connect import (
    connect,
    environment,
    identity,
    libpq_dsn,
    redact,
    resolved,
    same_database,
)
from privbench.postgres.failures import database_errors, describe


@pytest.fixture(scope="module")
def two(make_database):
    return make_database(), make_database()


def test_connect_names_and_times_the_session(two):
    with connect(two[0], lock_timeout=2) as connection:
        row = connection.execute(
            "SELECT current_setting('application_name'), current_setting('statement_timeout'),"
            " current_setting('lock_timeout')"
        ).fetchone()
    assert row == ("privbench", "0", "2s")


def test_connect_by_every_spelling_of_a_dsn_reaches_one_database(two, monkeypatch, tmp_path):
    parts = conninfo.conninfo_to_dict(two[0])
    host, name = parts["host"], parts["dbname"]
    user = parts.get("user", "postgres")
    services = tmp_path / "services"
    services.write_text(f"[shop]\nhost={host}\ndbname={name}\nuser={user}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    quoted = str(host).replace("/", "%2F")
    port = f":{parts['port']}" if "port" in parts else ""
    spellings = [
        two[0],
        f"postgresql://{user}@{quoted}{port}/{name}",
        f"postgresql+psycopg://{user}@/{name}?host={host}" + port.replace(":", "&port="),
        "service=shop" + port.replace(":", " port="),
    ]
    for dsn in spellings:
        with connect(dsn) as connection:
            assert connection.info.dbname == name
    variables = {"PGHOST": host, "PGUSER": user, "PGDATABASE": name, "PGPORT": parts.get("port")}
    for variable, value in variables.items():
        if value is not None:
            monkeypatch.setenv(variable, str(value))
    with connect("") as connection:
        assert connection.info.dbname == name
        assert resolved(connection)["host"] == host
        assert environment(connection)["PGDATABASE"] == name


@pytest.mark.parametrize("secret", ["hush-hush", "with space", "it's", "hush/hush"])
def test_connect_with_a_password_never_shows_it(secret):
    dsn = conninfo.make_conninfo("host=/nonexistent dbname=x user=u", password=secret)
    with pytest.raises(ConnectionFailed) as caught:
        connect(dsn)
    assert secret not in str(caught.value)
    assert "host=/nonexistent" in str(caught.value)
    assert caught.value.exit_code == 3
    assert caught.value.__suppress_context__
    assert secret not in redact(dsn)
    assert "hush" not in redact(f"postgresql+psycopg://u:{secret}@db.example/x")
    with pytest.raises(UsageError) as unreadable:
        libpq_dsn(f"host=x password {secret}")
    assert "hush" not in str(unreadable.value)


#: What may be a password, or a part of one, in a URL.
SECRETS = (
    "hush", "x@hush", "x/hush", "1/hush", "x?hush", "x#hush", "x:hush", "x hush", "@hush",
    "x@y/hush", "x,hush", "[hush", "x=hush", "%40hush",
)  # fmt: skip


@pytest.mark.parametrize(
    "dsn",
    [
        *(
            f"{kind}://ada:{secret}@127.0.0.1:1/shop"
            for kind in ("postgresql", "postgres", "postgresql+psycopg")
            for secret in SECRETS
        ),
        *sql_of(__file__, "secret_dsns.txt").splitlines(),
    ],
)
def test_what_may_be_a_part_of_a_password_is_never_shown(dsn):
    """A DSN that can be cut in several ways is not shown at all, nor is what libpq says of it."""
    with pytest.raises((ConnectionFailed, UsageError)) as caught:
        connect(dsn)
    assert "hush" not in str(caught.value)
    with contextlib.suppress(UsageError):
        assert "hush" not in redact(dsn)
    for words in (
        ["check", "none", dsn],
        ["doctor", dsn],
        ["--log-format", "json", "inspect", dsn],
        ["ledger", "show", dsn, dsn],
        ["inspect", "--table", dsn, dsn, dsn],
        [dsn],
        ["load", dsn, dsn],
        ["verify", dsn],
        ["--log-format", "json", "publish", dsn, "-o", "none"],
    ):
        result = CliRunner().invoke(main, words)
        assert result.exit_code
        assert "hush" not in result.output, words


def test_connect_to_what_is_not_there_or_goes_away_fails(server, two):
    dsn = conninfo.make_conninfo(server.dsn, dbname="no such database")
    with pytest.raises(ConnectionFailed, match="no such database"):
        connect(dsn)
    # A lost connection is a failed connection.
    with connect(two[0], autocommit=True) as victim, connect(two[0]) as killer:
        killer.execute("SELECT pg_terminate_backend(%s)", [victim.info.backend_pid])
        with pytest.raises(ConnectionFailed), database_errors("asking"):
            victim.execute("SELECT pg_sleep(20)")


def test_two_sessions_of_one_database_are_known(newest_server, make_database_on):
    dsn, other = make_database_on(newest_server), make_database_on(newest_server)
    with connect(dsn) as a, connect(dsn, autocommit=True) as b, connect(other) as c:
        assert same_database(a, a)
        assert same_database(a, b)
        assert not same_database(a, c)
        assert identity(a) == identity(b) != identity(c)


def test_two_sessions_of_one_database_are_known_without_its_identifier(two):
    function = "EXECUTE ON FUNCTION pg_control_system()"
    execute(two[0], f"REVOKE {function} FROM PUBLIC", "CREATE ROLE plain LOGIN")
    try:
        plain, elsewhere = (conninfo.make_conninfo(dsn, user="plain") for dsn in two)
        with connect(plain) as a, connect(two[0]) as b, connect(elsewhere) as c:
            assert identity(a).name is None
            assert identity(a, "shop").name == "shop"
            assert "identifier" in identity(b).basis
            assert same_database(a, b)
            assert same_database(b, a)
            assert not same_database(a, c)
    finally:
        execute(two[0], f"GRANT {function} TO PUBLIC", "DROP ROLE plain")


STATEMENTS = {
    "SELECT 'CANARY'::integer": "InvalidTextRepresentation",
    "INSERT INTO once VALUES ('CANARY')": "constraint 'once_pkey'",
    "INSERT INTO once VALUES ('CANARY bad')": "constraint 'no_bad'",
    "DO $$ BEGIN RAISE EXCEPTION 'CANARY'; END $$": "RaiseException",
}


@pytest.mark.parametrize("statement", sorted(STATEMENTS))
def test_describe_of_an_error_holds_no_value_of_a_row(statement, two):
    with connect(two[0]) as connection:
        connection.execute(
            "CREATE TABLE once (k text PRIMARY KEY CONSTRAINT no_bad CHECK (k !~ 'bad'))"
        )
        connection.execute("INSERT INTO once VALUES ('CANARY')")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(statement)
        connection.rollback()
    assert "CANARY" not in describe(caught.value)
    assert STATEMENTS[statement] in describe(caught.value)
