"""What stops SQL of a model if the allow-list has a hole: it is given to the loader itself."""

import uuid
from dataclasses import replace

import market
import psycopg
import pyarrow as pa
import pytest
from sql_files import sql_of

from privbench.errors import AccessDenied, DatabaseError, TargetError
from privbench.postgres.connect import connect
from privbench.postgres.ddl import dump_ddl
from privbench.postgres.introspect import introspect
from privbench.postgres.load import Loader
from privbench.postgres.repair import Repair
from privbench.postgres.statement import run

SCHEMA = sql_of(__file__, "second_wall")


@pytest.fixture(scope="module")
def plan(make_database):
    with connect(make_database(statements=SCHEMA)) as connection:
        schema = introspect(connection)
        return schema, dump_ddl(connection, schema)


@pytest.fixture
def make_role(server):
    """``make_role(attributes)``: the name of a new role."""
    made = []

    def make(attributes=""):
        made.append(f"role {uuid.uuid4().hex[:12]}")
        market.execute(server.dsn, f'CREATE ROLE "{made[-1]}" {attributes}')
        return made[-1]

    return make


@pytest.fixture
def weak(make_database):
    """The DSN of an empty database, and a role that owns it and has no other right."""
    target = make_database()
    return target, market.weak_owner(target)


def fill(target, plan, more="", after="", **options):
    """Load with statements of a stranger, before and after the rows."""
    schema, ddl = plan
    ddl = replace(ddl, pre_data=ddl.pre_data + more, post_data=ddl.post_data + after)
    with Loader(target, schema, ddl, **options) as loader:
        repair = Repair(loader, schema.tables, seed=1)
        loader.copy_table("t", ["id", "n"], [pa.table({"id": [1, 2, 3], "n": [1, 2, -3]})])
        repair.settle()
        loader.finish()


def test_loader_as_a_weak_role_owns_everything(plan, weak):
    """A role that owns the database alone is enough for a load, VACUUM included."""
    target, role = weak
    fill(target, plan, as_role=role)
    owners = "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 2200"
    assert market.ask(target, owners) == [(role,)]
    whole = "SELECT count(*), sum(n) = (SELECT total FROM sums) FROM t"
    assert market.ask(target, whole) == [(3, True)]
    seen = "SELECT relallvisible = relpages FROM pg_class WHERE relname = 't'"
    assert market.one(target, seen) is True
    fill(target, plan, as_role=role, replace=True)


@pytest.mark.parametrize("statement", sql_of(__file__, "too_much_for_a_weak_role").splitlines())
@pytest.mark.parametrize("place", ["more", "after"])
def test_loader_as_a_weak_role_is_a_wall(plan, weak, burglary, statement, place):
    """Statements that need rights which the operator has and the weak role has not."""
    target, role = weak
    text = f"\n{statement.format(program=burglary.statement)};\n"
    with pytest.raises(DatabaseError) as caught:
        fill(target, plan, as_role=role, **{place: text})
    assert isinstance(caught.value, (AccessDenied, TargetError))
    assert not burglary.done
    assert market.ask(target, "SELECT 1 FROM pg_class WHERE relnamespace = 2200") == []
    assert market.ask(target, "SELECT 1 FROM pg_roles WHERE rolname = 'burglar'") == []


@pytest.mark.parametrize(
    "attributes",
    ["SUPERUSER", "CREATEROLE", "CREATEDB", "REPLICATION", "BYPASSRLS",
     "IN ROLE pg_execute_server_program", "IN ROLE pg_write_server_files",
     "IN ROLE pg_read_all_data", "NOINHERIT IN ROLE pg_monitor", 'IN ROLE "{strong}"', None],
)  # fmt: skip
def test_loader_as_a_strong_role_is_refused(plan, make_database, make_role, attributes):
    """Its attributes and memberships are asked for before anything runs."""
    strong = make_role("SUPERUSER")
    role = make_role(attributes.format(strong=strong)) if attributes else "nobody at all"
    refused = rf"the role '{role}' may do too much: it (is|may|passes)"
    if not attributes:
        refused = "there is no role 'nobody at all'"
    elif "{" in attributes:
        refused = f"is a member of {strong}"
    with pytest.raises(TargetError, match=refused):
        fill(make_database(), plan, as_role=role)


@pytest.mark.parametrize("place", ["more", "after"])
@pytest.mark.parametrize("statement", sql_of(__file__, "leaving").splitlines())
def test_loader_of_ddl_that_leaves_it_is_refused(plan, make_database, statement, place):
    """That ends the transaction, or has texts read in another way."""
    # After the rows the server itself may be first to refuse: the savepoint of a rehearsal is gone,
    # or the other role does not own the table.
    said = "has left the transaction of the load" if place == "more" else None
    with pytest.raises(DatabaseError, match=said):
        fill(make_database(), plan, **{place: f"\n{statement};\n"})


def test_loader_of_temporary_objects_is_refused(plan, make_database):
    """A temporary type named text would capture ``::text`` of the tool's own questions."""
    for text in ("CREATE TEMPORARY TABLE x (i int)", "CREATE TYPE pg_temp.text AS ENUM ('a')"):
        for place in ("more", "after"):
            with pytest.raises(TargetError, match="temporary objects"):
                fill(make_database(), plan, **{place: f"\n{text};\n"})


def test_run_of_two_statements_in_one_text_fails(make_database):
    """The protocol takes one statement a message."""
    target = make_database()
    with connect(target) as connection, pytest.raises(psycopg.errors.SyntaxError):
        run(connection, "SELECT 1; COMMIT; CREATE TABLE public.left_behind (i int); COMMIT")
    assert market.one(target, "SELECT to_regclass('public.left_behind')") is None
