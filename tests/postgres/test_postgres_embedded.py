import psycopg
import pytest

from privbench.errors import UsageError
from privbench.postgres import embedded


def test_fixtures_give_distinct_empty_databases(make_database):
    first, second = make_database(), make_database()
    assert first != second
    with psycopg.connect(first) as connection:
        assert connection.execute(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        ).fetchone() == (0,)


def test_each_server_runs_the_version_it_states(each_server):
    with psycopg.connect(each_server.dsn) as connection:
        assert connection.info.server_version // 10000 == each_server.major


def test_unknown_major_names_those_at_hand():
    programs = embedded.embedded_programs()
    with pytest.raises(UsageError, match=str(programs[0].major)):
        embedded.embedded_server(major=7)
