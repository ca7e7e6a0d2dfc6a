"""Rows that break the schema's rules are repaired during the load, whatever the rule.

What becomes of which rows under which schema: the cases in ``repair/`` (see `repair_cases`).
"""

import contextlib
from functools import cache
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
import repair_cases
from plans import plan
from sql_files import sql_of

from privbench.postgres.connect import connect
from privbench.postgres.load import Loader
from privbench.postgres.repair import Repair

FILES = repair_cases.read(Path(__file__).parent / "repair")
CASES = [(file, case) for file, cases in FILES.items() for case in cases]
#: What repairs set aside, or could leave behind: columns, constraints, domains, indexes.
RULES = sql_of(__file__, "rules_of_schema")


def ask(dsn, query, schema="public"):
    with connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}".encode())
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def loaded(make_database):
    """``loaded(ddl, tables)``: DSN of the clone, schemas with all rules of the source, changes."""

    def load(ddl, tables, suspects=(), seed=None):
        source, target = make_database(ddl), make_database()
        schema, text = plan(source)
        with Loader(target, schema, text) as loader:
            repair = Repair(loader, schema.tables, suspects, seed=seed)
            for name, rows in tables.items():
                loader.copy_table(schema.table(name), rows.column_names, [rows])
            repair.settle()
            loader.finish()
        rules = (
            (name, [ask(dsn, RULES.format(schema=name)) for dsn in (source, target)])
            for name in schema.schemas
        )
        return target, {name for name, (one, other) in rules if one == other != []}, repair

    return load


@pytest.fixture(scope="module")
def clones(loaded, server):
    """``clones(file)``: `loaded` for all cases of a file that this server may have."""

    @cache
    def clone(file):
        ddl, tables, suspects = "", {}, []
        for case in FILES[file]:
            if server.major < case.given.get("since", 0):
                continue
            ddl += f"CREATE SCHEMA {case.schema}; SET search_path = {case.schema};\n{case.ddl}\n"
            suspects += case.given.get("suspects", [])
            for names, (columns, query) in case.rows.items():
                values = zip(*ask(server.dsn, query), strict=True)
                rows = pa.table(dict(zip(columns, map(pa.array, values), strict=True)))
                tables |= {f"{case.schema}.{name}": rows for name in names.split(", ")}
        return loaded(ddl, tables, suspects)

    return clone


@pytest.mark.parametrize(("file", "case"), CASES, ids=[case.title for _, case in CASES])
def test_repair_of_rows_gives_what_the_case_says(file, case, clones, server):
    given = {"loose": [], "since": 0, **case.given}
    if server.major < given["since"]:
        pytest.skip(f"came with PostgreSQL {given['since']}")
    dsn, same, repaired = clones(file)
    own = f"{case.schema}."
    assert (case.schema in same) == (not given["loose"])
    assert [name for name in repaired.loose if name.startswith(own)] == given["loose"]
    counts = {
        kind: {name: n for name, n in getattr(repaired, kind).items() if name.startswith(own)}
        for kind in ("deleted", "changed")
    }
    for kind in counts.keys() & given.keys():
        assert counts[kind] == given[kind]
    for query, wanted in case.then:
        query = query.replace("{deleted}", str(sum(counts["deleted"].values())))
        if wanted.startswith("!"):
            with pytest.raises(getattr(psycopg.errors, wanted[1:])):
                ask(dsn, query, case.schema)
        else:
            assert ask(dsn, query, case.schema) == repair_cases.answer(wanted), query


def test_rehearsal_leaves_nothing(make_database):
    schema, text = plan(make_database("CREATE TABLE t (id int PRIMARY KEY, n int UNIQUE)"))
    with contextlib.closing(Loader(make_database(), schema, text)) as loader:
        count = "SELECT count(*) FROM pg_index WHERE indrelid = 'public.t'::regclass"
        with loader.rehearsal():
            assert loader.connection.execute(count).fetchone() == (2,)
        assert loader.connection.execute(count).fetchone() == (0,)
        # The copy may still freeze its pages.
        rows = pa.table({"id": [1, 2], "n": [1, 1]})
        assert loader.copy_table("t", ["id", "n"], [rows]) == 2


def test_repair_with_a_seed_is_the_same_again(loaded):
    ddl = "CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n & 1 = 0))"
    rows = pa.table({"id": range(200), "n": range(200)})
    found = [
        ask(loaded(ddl, {"t": rows}, seed=seed)[0], "SELECT id, n FROM t ORDER BY 1")
        for seed in (5, 5, 6)
    ]
    assert found[0] == found[1] != found[2]
