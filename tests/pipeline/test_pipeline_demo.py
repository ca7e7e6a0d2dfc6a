"""The demonstration's source is a database one could take for a real one."""

import psycopg
import pytest
from integrity import pg_dump
from sql_files import cases

from privbench.errors import ConnectionFailed, TargetError, UsageError
from privbench.pipeline.demo import LEAST_ROWS, make_clinic

ROWS = 12_000
TRAITS = dict(cases(__file__, "clinic"))


@pytest.fixture(scope="module")
def clinic(make_database):
    dsn = make_database()
    make_clinic(dsn, rows=ROWS, seed=3)
    with psycopg.connect(dsn) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


@pytest.mark.parametrize("trait", TRAITS)
def test_the_clinic_has_what_real_databases_have(clinic, trait):
    assert clinic.execute(TRAITS[trait]).fetchone() == (True,)


def test_a_seed_gives_the_same_rows_and_what_is_refused(make_database):
    one, two, other = (make_database() for _ in range(3))
    for dsn, seed in ((one, 3), (two, 3), (other, 4)):
        make_clinic(dsn, LEAST_ROWS, seed)
    dumps = [pg_dump(dsn, "--data-only", "--inserts") for dsn in (one, two, other)]
    assert dumps[0] == dumps[1] != dumps[2]
    with pytest.raises(TargetError, match="already exists"):
        make_clinic(one, rows=2_000)
    with pytest.raises(UsageError, match="at least 2000"):
        make_clinic(one, rows=10)
    with pytest.raises(ConnectionFailed):
        make_clinic("host=/nonexistent dbname=none", rows=2_000)
