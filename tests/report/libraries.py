"""A library and a clone of it that is a little off, and a workload for both."""

import pytest
from sql_files import sql_of

from privbench.config import Config
from privbench.report import compare
from privbench.workload import Workload, WorkloadQuery


@pytest.fixture(scope="session")
def library(make_database):
    """DSN of the source."""
    return make_database(sql_of(__file__, "library", step=5, loans=2000))


@pytest.fixture(scope="session")
def library_clone(make_database):
    """DSN of the clone."""
    return make_database(sql_of(__file__, "library", step=8, loans=1900))


@pytest.fixture(scope="session")
def loans():
    """31 queries, one of which times out and one of which fails on the clone."""
    texts = [
        *(f"SELECT count(*) FROM loans WHERE weeks = {i}" for i in range(1, 9)),
        *(f"SELECT count(*) FROM readers WHERE born <= {1940 + 7 * i}" for i in range(10)),
        *(
            "SELECT count(*) FROM readers r JOIN loans l ON l.reader = r.id"
            f" WHERE r.city < 'B' AND l.weeks <= {i}"
            for i in range(1, 9)
        ),
        "SELECT city, count(*) FROM readers GROUP BY city",
        "SELECT count(*) FROM readers WHERE city = '<script>alert(1)</script>'",
        "SELECT id FROM loans ORDER BY taken LIMIT 10",
        "SELECT pg_sleep(3)",
        "SELECT 1 / (count(*) - 1900) FROM loans",
    ]
    return Workload("loans", tuple(WorkloadQuery(f"l{i}", sql) for i, sql in enumerate(texts, 1)))


CONFIG = '[tables."public.branches"]\nrole = "public"'


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where the comparison's files are."""
    return tmp_path_factory.mktemp("out") / "report"


@pytest.fixture(scope="session")
def document(library, library_clone, loans, folder):
    """A whole comparison of the library and its clone."""
    return compare(
        library,
        library_clone,
        loans,
        Config.loads(CONFIG),
        folder,
        ["qerror.p95 > 1000", "qerror.p50 < 1", "rows.max_difference > 1"],
        repeats=2,
        timeout=0.3,
        floor=True,
        junit=folder / "junit.xml",
        functions=("pg_catalog.pg_sleep",),
    )
