"""What a target or synthetic rows cannot have does not stop a load: it is left out, and named."""

import contextlib
from dataclasses import replace

import plans
import pyarrow as pa
import pytest
from market import ask, execute
from sql_files import sql_of

from privbench.errors import DatabaseError, SchemaError, TargetError
from privbench.postgres.load import Loader


@pytest.fixture
def plan(newest_server, make_database_on):
    """``plan(ddl)``: what is known of a source of that schema."""
    return lambda ddl: plans.plan(make_database_on(newest_server, statements=ddl))


@pytest.mark.parametrize("major", [99, 9])
def test_loader_into_an_older_server_names_it_as_the_reason(plan, server, make_database, major):
    schema, made = plan("CREATE TABLE t (id text)")
    later = made.pre_data.replace("id text", "id text COLLATE pg_catalog.later")
    with pytest.raises(DatabaseError, match=r'"pg_catalog.later" .* does not exist') as caught:
        Loader(
            make_database(),
            replace(schema, server_version=major * 10000),
            replace(made, pre_data=later),
        )
    told = f"The target is PostgreSQL {server.major}, the source 99: an older server may not know"
    assert (told in str(caught.value)) == (major == 99)


def test_loader_of_views_that_rows_break_leaves_them_empty(plan, newest_server, make_database_on):
    rows = pa.table({"id": [1, 2, 3], "kind": ["a", "a", "b"], "n": [5, 5, 0]})
    target = make_database_on(newest_server)
    lost = plans.load(target, plan(sql_of(__file__, "materialised_views")), rows={"t": rows}).lost
    filled = "SELECT relname FROM pg_class WHERE relkind = 'm' AND relispopulated"
    assert ask(target, filled) == [("whole",)]
    assert ask(target, "SELECT c FROM whole") == [(3,)]
    indexes = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'kinds'::regclass"
    assert sorted(ask(target, indexes)) == [("kinds_kind",), ("kinds_n",)]
    whys = dict(line.removeprefix("the materialised view public.").split(" ", 1) for line in lost)
    assert sorted(whys) == ["kinds", "of_kinds", "one", "shares"]
    assert all(why.startswith("stays without data: ") for why in whys.values())
    assert "a unique constraint is violated, constraint 'kinds_kind'" in whys["kinds"]
    assert "has not been populated" in whys["of_kinds"]
    # Once the rows allow it, the views are filled, those upon views as well.
    refresh = [f"REFRESH MATERIALIZED VIEW {view}" for view in ("kinds", "of_kinds")]
    execute(target, "DELETE FROM t WHERE id <> 1", *refresh)
    assert ask(target, "SELECT c FROM of_kinds") == [(1,)]
    assert ask(target, "SELECT kind FROM upper_kinds") == [("A",)]


FOREIGN = sql_of(__file__, "foreign")


def test_foreign_tables_are_left_behind_by_name_and_foreign_partitions_refused(plan):
    _, made = plan(FOREIGN + sql_of(__file__, "upon_foreign"))
    assert made.left_behind == (
        "stays behind: foreign table public.f",
        "stays behind: function public.g(), built upon what stays behind",
        "stays behind: view public.v, built upon what stays behind",
    )
    assert "VIEW public.w" in made.pre_data
    # Rows that lie on another server are refused.
    foreign = "CREATE FOREIGN TABLE f PARTITION OF t FOR VALUES FROM (10) TO (20) SERVER nowhere;"
    with pytest.raises(SchemaError, match=r"public\.t: its partition public\.f is a foreign table"):
        plan(FOREIGN + foreign)


def test_loader_of_an_extension_for_functions_alone_names_it(plan, newest_server, make_database_on):
    schema, made = plan("CREATE TABLE t (i int)")
    lacking = "CREATE EXTENSION no_such_extension WITH SCHEMA public;"
    head = "--\n-- Name: no_such_extension; Type: EXTENSION; Schema: -; Owner: -\n--\n\n"
    text = f"{head}{lacking}\n\n\n{made.pre_data}"
    made = type(made)(text, made.post_data, ())
    with contextlib.closing(Loader(make_database_on(newest_server), schema, made)) as loader:
        assert len(loader.lost) == 1
        assert "left out, since the server refuses it: " in loader.lost[0]
        assert "no_such_extension" in loader.lost[0]
    needed = type(made)(text, made.post_data, ("no_such_extension",))
    with pytest.raises(TargetError, match="lacks the extensions no_such_extension"):
        Loader(make_database_on(newest_server), schema, needed)
