"""A workload that is published tells no name that somebody put into an alias or a comment."""

import pytest
from sql_files import cases, sql_of

from privbench.errors import UsageError
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.workload import Workload, WorkloadQuery
from privbench.workload.generators.rows import DatabaseRows
from privbench.workload.rebind import Planner, rebind

SHOP = sql_of(__file__, "names_schema")

#: Each holds Jane, in a place that a query may name as it likes.
QUERIES = dict(cases(__file__, "names"))


@pytest.fixture(scope="module")
def clone(make_database):
    with connect(make_database(statements=SHOP), autocommit=True) as connection:
        yield connection


def bound(clone, *texts, planner=True):
    """What becomes of a workload of some queries."""
    workload = Workload("w", tuple(WorkloadQuery(f"q{n}", text) for n, text in enumerate(texts)))
    rows = DatabaseRows(clone, 0)
    return rebind(workload, introspect(clone), rows, planner=Planner(clone) if planner else None)


@pytest.mark.parametrize("planner", [True, False])
@pytest.mark.parametrize("place", QUERIES)
def test_rebind_of_names_of_somebodys_choice_publishes_none(clone, place, planner):
    """They are made neutral, or the query is left out; what is bound still runs."""
    found = bound(clone, QUERIES[place], "SELECT 1 FROM sale", planner=planner)
    published = " ".join([*found.left_out.values(), *(q.sql for q in found.workload)]).lower()
    assert "jane" not in published
    assert "006aane" not in published
    left = {"search", "xml", "record", "ordinality", "unicode"}
    assert place in left or not found.left_out
    for query in found.workload:
        clone.execute(query.sql.encode()).fetchall()


def test_rebind_of_names_of_the_schema_keeps_them_and_keeps_names_apart(clone):
    text = "SELECT c.city, count(*) AS count FROM buyer AS c JOIN sale s1 ON s1.buyer_id = c.id"
    text += " GROUP BY c.city ORDER BY count"
    assert bound(clone, text, planner=False).workload.queries[0].sql == text
    # Names that differ in case, or that are n1 in the schema.
    text = (
        'SELECT a_a.id AS "Long", b_b.id AS "long", 1 AS n1 FROM sale a_a JOIN sale b_b USING (id)'
    )
    found = bound(clone, text, planner=False)
    with clone.cursor() as cursor:
        cursor.execute(found.workload.queries[0].sql.encode())
        assert len({column.name for column in cursor.description}) == 3
    # Rebind of nothing that can be published says so.
    with pytest.raises(UsageError, match="no query"):
        bound(clone, QUERIES["xml"], planner=False)
