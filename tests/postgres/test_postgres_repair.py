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
def loaded(each_server, make_database_on):
    """``loaded(ddl, tables)``: DSN of the clone, schemas with all rules of the source, changes."""

    def load(ddl, tables, suspects=(), seed=None):
        source, target = (
            make_database_on(each_server, statements=ddl),
            make_database_on(each_server),
        )
        schema, text = plan(source)
        with Loader(target, schema, text) as loader:
            repair = Repair(loader, schema.tables, suspects, seed=seed)
            for name, rows in tables.items():
                loader.copy_table(schema.table(name), rows.column_names, [rows])
            repaired = repair.settle()
            loader.finish()
        rules = (
            (name, [ask(dsn, RULES.format(schema=name)) for dsn in (source, target)])
            for name in schema.schemas
        )
        return target, {name for name, (one, other) in rules if one == other != []}, repaired

    return load


@pytest.fixture(scope="module")
def clones(loaded, each_server):
    """``clones(file)``: `loaded` for all cases of a file that this server may have."""

    @cache
    def clone(file):
        ddl, tables, suspects = "", {}, []
        for case in FILES[file]:
            if each_server.major < case.given.get("since", 0):
                continue
            ddl += f"CREATE SCHEMA {case.schema}; SET search_path = {case.schema};\n{case.ddl}\n"
            suspects += case.given.get("suspects", [])
            for name, (columns, query) in case.rows.items():
                values = list(zip(*ask(each_server.dsn, query), strict=True))
                arrays = map(pa.array, values)
                tables[f"{case.schema}.{name}"] = pa.table(dict(zip(columns, arrays, strict=True)))
        return loaded(ddl, tables, suspects)

    return clone


@pytest.mark.parametrize(("file", "case"), CASES, ids=[case.title for _, case in CASES])
def test_rows_are_repaired(file, case, clones, each_server):
    given = {"loose": [], "since": 0, **case.given}
    if each_server.major < given["since"]:
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


def test_nothing_is_left_of_a_rehearsal(make_database):
    schema, text = plan(make_database("CREATE TABLE t (id int PRIMARY KEY, n int UNIQUE)"))
    with contextlib.closing(Loader(make_database(), schema, text)) as loader:
        count = "SELECT count(*) FROM pg_index WHERE indrelid = 'public.t'::regclass"
        with loader.rehearsal():
            assert loader.connection.execute(count).fetchone() == (2,)
        assert loader.connection.execute(count).fetchone() == (0,)
        # The copy may still freeze its pages.
        rows = pa.table({"id": [1, 2], "n": [1, 1]})
        assert loader.copy_table("t", ["id", "n"], [rows]) == 2
        assert loader.add_rows(schema.table("t"), 0) == 0


def test_a_seed_repairs_the_same_rows_in_the_same_way(loaded):
    ddl = "CREATE TABLE t (id int PRIMARY KEY, n int CHECK (n % 2 = 0))"
    rows = pa.table({"id": range(200), "n": range(200)})
    found = [
        ask(loaded(ddl, {"t": rows}, seed=seed)[0], "SELECT id, n FROM t ORDER BY 1")
        for seed in (5, 5, 6)
    ]
    assert found[0] == found[1] != found[2]


#: A rule, and what at least so many rows are afterwards: no more is changed than needed.
OF_KIND_A = "count(*) FILTER (WHERE x = 'a') >= 40"
IMPLIED = {
    "x <> 'a' OR y IS NULL": OF_KIND_A,
    "(y IS NULL) = (z IS NULL)": OF_KIND_A,
    "CASE x WHEN 'a' THEN y IS NOT NULL AND z IS NULL ELSE z = y + 1 END": (
        "count(*) FILTER (WHERE x = 'a' AND y > 0) >= 40"
    ),
    "CASE WHEN x = 'a' THEN y > 900 ELSE z IS NULL END": OF_KIND_A,
    "num_nonnulls(p, q, r) = 1": "least(count(p), count(q), count(r)) >= 5",
    "((p IS NOT NULL)::int + (q IS NOT NULL)::int + (r IS NOT NULL)::int) = 2": (
        "least(count(p), count(q), count(r)) >= 10"
    ),
    "f = (y IS NOT NULL AND x = 'a')": "count(*) FILTER (WHERE f) >= 1",
    "NOT (f AND (y IS NULL OR z IS NULL))": "count(*) FILTER (WHERE f) >= 40",
    "x IS DISTINCT FROM 'a' OR y BETWEEN 950 AND 960 OR m IN ('hot')": OF_KIND_A,
    "(x = 'a' AND p IS NOT NULL AND q IS NULL) OR (x = 'b' AND q IS NOT NULL AND p IS NULL)": (
        OF_KIND_A
    ),
    "g IS NULL OR z IS NULL": "count(z) >= 10",
}


@pytest.fixture(scope="module")
def implied(loaded):
    """The clone of one table for each rule, all with the same rows, as of `loaded`."""
    ddl = "CREATE TYPE mood AS ENUM ('cold', 'hot'); CREATE TABLE o (id int PRIMARY KEY);"
    for number, rule in enumerate(IMPLIED):
        ddl += f"""
        CREATE TABLE t{number} (
          id int PRIMARY KEY, x text NOT NULL, y int, z int, f boolean NOT NULL, m mood,
          p int REFERENCES o, q int REFERENCES o, r int REFERENCES o,
          g int GENERATED ALWAYS AS (y + 1) STORED, CHECK ({rule})
        );"""
    count = range(120)
    columns = {
        "id": count,
        "x": ["a" if i % 2 else "b" for i in count],
        "y": [i % 50 + 1 if i % 3 else None for i in count],
        "z": [100 + i if i % 3 != 1 else None for i in count],
        "f": [i % 2 == 0 for i in count],
        "m": ["cold"] * 120,
        # Some rows have one reference, some two of three.
        **{
            name: pa.array([1 if i % 12 in spots else None for i in count], pa.int32())
            for name, spots in (("p", (0, 3, 5)), ("q", (1, 3, 4)), ("r", (2, 4, 5)))
        },
    }
    tables = {f"t{number}": pa.table(columns) for number in range(len(IMPLIED))}
    return loaded(ddl, {"o": pa.table({"id": [1, 2]}), **tables})


@pytest.mark.parametrize("rule", IMPLIED)
def test_implications_of_every_form_are_kept_by_changing_no_more_than_needed(implied, rule):
    dsn, same, repaired = implied
    table = f"t{list(IMPLIED).index(rule)}"
    assert same == {"public"}
    assert (repaired.deleted, repaired.loose) == ({}, ())
    assert ask(dsn, f"SELECT count(*), {IMPLIED[rule]} FROM {table}") == [(120, True)]


def test_repairs_lead_no_self_reference_in_a_circle(loaded):
    """A row goes that all others are below of: they take another one of their tenant."""
    ddl = "".join(
        f"""
        CREATE TABLE {name} (
          tenant int, id int, top boolean NOT NULL, up int {null}, v int NOT NULL,
          PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, up) REFERENCES {name} (tenant, id)
        );
        CREATE UNIQUE INDEX ON {name} (abs(v));
        """
        for name, null in (("may", ""), ("must", "NOT NULL"))
    )
    count = 60
    rows = pa.table(
        {
            "tenant": [1] * count,
            "id": range(count),
            "top": [True] * count,
            # Row 1 goes, since -2 and 2 are one; what referred to it goes elsewhere.
            "up": [max(i - 1, 0) if i != 1 else 59 for i in range(count)],
            "v": [i if i != 1 else -2 for i in range(count)],
        }
    )
    dsn, same, _ = loaded(ddl, {"may": rows, "must": rows})
    assert same == {"public"}
    for name in ("may", "must"):
        circles = (
            f"WITH RECURSIVE up AS (SELECT id AS start, up FROM {name} WHERE up <> id UNION"
            f" SELECT up.start, t.up FROM up JOIN {name} t ON t.id = up.up WHERE t.up <> t.id)"
            " SELECT count(*) FROM up WHERE start = up"
        )
        assert ask(dsn, circles) == [(0,)]
        roots = (
            "SELECT count(*), count(*) FILTER (WHERE up IS NULL OR up = id) BETWEEN 1 AND 3"
            f" FROM {name}"
        )
        assert ask(dsn, roots) == [(count - 1, True)]
