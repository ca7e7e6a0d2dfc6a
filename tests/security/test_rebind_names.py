"""Attacks by the names and comments of a workload that is to be published.

Whoever wrote a query may have put a customer's name into an alias. Each test names the attack, its
door, and what stops it.
"""

from __future__ import annotations

import re

import attacks
import pytest

from privbench.errors import UsageError
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect
from privbench.workload import Query, Workload
from privbench.workload.generators.database import DatabaseRows
from privbench.workload.rebind import Planner, rebind

SHOP = """
CREATE TABLE buyer (id integer PRIMARY KEY, city text);
CREATE TABLE sale (id integer PRIMARY KEY, buyer_id integer REFERENCES buyer, total numeric);
INSERT INTO buyer SELECT i, 'c' || i % 3 FROM generate_series(1, 20) i;
INSERT INTO sale SELECT i, 1 + i % 20, i FROM generate_series(1, 60) i;
"""

#: Each holds Jane, in a place that a query may name as it likes.
QUERIES = dict(attacks.read("names.sql"))


@pytest.fixture(scope="module")
def clone(make_database):
    with connect(make_database(statements=SHOP), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("planner", [True, False])
@pytest.mark.parametrize("place", QUERIES)
def test_no_name_of_somebodys_choice_is_published(clone, place, planner):
    """Attack: a person's name as an alias, a WITH query, a comment. Door: workload.

    Names that a query gives itself are made neutral; a query with others is left out. What is
    bound still runs.
    """
    workload = Workload("w", (Query("q", QUERIES[place]), Query("other", "SELECT 1 FROM sale")))
    found = rebind(
        workload,
        introspect(clone),
        DatabaseRows(clone, 0),
        planner=Planner(clone) if planner else None,
    )
    assert (
        "jane" not in " ".join([*found.left_out.values(), *(q.sql for q in found.workload)]).lower()
    )
    assert not re.search(r"(?i)006aane", " ".join(q.sql for q in found.workload))
    left = {"search", "xml", "record", "ordinality", "unicode"}
    assert place in left or not found.left_out
    for query in found.workload:
        clone.execute(query.sql.encode()).fetchall()


def test_names_of_the_schema_and_usual_words_stay(clone):
    """No attack: what is published anyway stays readable."""
    text = "SELECT c.city, count(*) AS count FROM buyer AS c JOIN sale s1 ON s1.buyer_id = c.id"
    text += " GROUP BY c.city ORDER BY count"
    found = rebind(Workload("w", (Query("q", text),)), introspect(clone), DatabaseRows(clone, 0))
    assert found.workload.queries[0].sql == text


def test_two_names_do_not_become_one(clone):
    """Attack: names that differ in case, or that are n1 in the schema. Door: workload.

    Each has its own neutral name.
    """
    text = (
        'SELECT a_a.id AS "Long", b_b.id AS "long", 1 AS n1 FROM sale a_a JOIN sale b_b USING (id)'
    )
    found = rebind(Workload("w", (Query("q", text),)), introspect(clone), DatabaseRows(clone, 0))
    with clone.cursor() as cursor:
        cursor.execute(found.workload.queries[0].sql.encode())
        assert cursor.description is not None
        assert len({column.name for column in cursor.description}) == 3


def test_a_workload_of_which_nothing_can_be_published(clone):
    """No attack: that nothing is left is said."""
    with pytest.raises(UsageError, match="no query"):
        rebind(
            Workload("w", (Query("q", QUERIES["xml"]),)), introspect(clone), DatabaseRows(clone, 0)
        )
