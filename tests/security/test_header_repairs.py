"""Door: the header of a model that a stranger made. Attack: its texts become SQL of the repairs.

The load is made by a superuser, as careless as can be. What stops every attack of this file: the
repairs know types, defaults, generated columns and sequences from the target's own catalog
(`privbench.postgres.header`), names are quoted, and a statement is one message
(`privbench.postgres.statement`).
"""

from __future__ import annotations

import ast
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from forging import burglary, fitted, forge

import privbench
from privbench import pipeline
from privbench.errors import ModelError, PrivbenchError
from privbench.pipeline import Model
from privbench.postgres.load import Loader
from privbench.schema import Schema

__all__ = ["burglary", "fitted", "forge"]

#: Rows that `independent` draws break every CHECK and the EXCLUDE constraint of this schema.
SCHEMA = """
CREATE TYPE mood AS ENUM ('calm', 'wild', 'odd');
CREATE TABLE host (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE guest (
  id int PRIMARY KEY, host int REFERENCES host, mood mood NOT NULL,
  net int NOT NULL DEFAULT 7, tax int NOT NULL DEFAULT 3, gross int NOT NULL DEFAULT 10,
  twice int GENERATED ALWAYS AS (net * 2) STORED,
  stay int4range NOT NULL,
  CONSTRAINT sums CHECK (gross = net + tax),
  CONSTRAINT moody CHECK (mood <> 'odd' OR host IS NULL),
  CONSTRAINT small CHECK (twice <= 60 OR mood = 'calm'),
  CONSTRAINT apart EXCLUDE USING gist (stay WITH &&));
CREATE TABLE place (code text NOT NULL);
INSERT INTO host SELECT i, 'host ' || i FROM generate_series(1, 5) i;
INSERT INTO guest (id, host, mood, net, tax, gross, stay)
  SELECT i, CASE WHEN i % 3 > 0 THEN 1 + i % 5 END,
    (ARRAY['odd', 'calm', 'wild'])[1 + i % 3]::mood,
    CASE WHEN i % 3 = 1 THEN 10 * i ELSE i % 30 END, i % 7,
    CASE WHEN i % 3 = 1 THEN 10 * i ELSE i % 30 END + i % 7, int4range(i * 3, i * 3 + 2)
  FROM generate_series(1, 80) i;
INSERT INTO place VALUES ('here');
"""
PUBLIC = '[tables."public.place"]\nrole = "public"\n[tables."public.guest"]\nown = []\n'


@pytest.fixture(scope="module")
def model(fitted):
    return fitted(SCHEMA, PUBLIC)


@pytest.fixture
def load(model, forge, make_database, burglary):
    """``load(change)``: the target after a load of the changed model, and what the load raised.

    Nothing of the burglary may have happened by then.
    """

    def loaded(change):
        target, raised = make_database(), None
        try:
            pipeline.load(forge(model, change), target, seed=1)
        except PrivbenchError as error:
            raised = error
        assert not burglary.done
        assert ask(target, "SELECT 1 FROM pg_roles WHERE rolname LIKE 'burglar%'") == []
        if raised is not None:
            assert raised.exit_code in (2, 3)
            assert ask(target, "SELECT 1 FROM pg_class WHERE relnamespace = 2200") == []
        return target, raised

    return loaded


def column(header, name, table="guest"):
    """A column of the header's schema."""
    found = next(t for t in header["schema"]["tables"] if t["name"]["name"] == table)
    return next(c for c in found["columns"] if c["name"] == name)


def ask(dsn, query):
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def key_of(header, table="guest"):
    return next(t for t in header["schema"]["tables"] if t["name"]["name"] == table)[
        "foreign_keys"
    ][0]


def test_an_honest_copy_is_repaired(load):
    """No attack: the repairs that the others aim at do run."""
    target, raised = load(lambda parts, header: None)
    assert raised is None
    assert ask(target, "SELECT count(*) > 20, bool_and(gross = net + tax) FROM guest") == [
        (True, True)
    ]


def test_a_type_that_closes_the_cast_and_runs_a_program(load, burglary):
    """Attack: a column's type ends the repair's CASE and begins a COPY TO PROGRAM.

    Door: header, type of a column whose CHECK the rows break.
    Stopped by: format_type of the target's catalog; one statement a message.
    """

    def change(parts, header):
        column(header, "gross")["type"]["sql"] = (
            f"integer) END AS a FROM public.guest) SELECT 1; {burglary.statement}; --"
        )

    load(change)


def test_a_type_that_calls_a_function(load, burglary):
    """Attack: the type goes on as an expression, all within one statement.

    Door: header, type of a column whose CHECK the rows break.
    Stopped by: format_type of the target's catalog.
    """

    def change(parts, header):
        for name in ("gross", "net", "tax"):
            column(header, name)["type"]["sql"] = (
                f"integer) + CAST({burglary.expression} AS integer"
            )

    load(change)


def test_a_range_type_under_an_exclude_constraint(load, burglary):
    """Attack: a range's type becomes a call within the PL/pgSQL that moves rows.

    Door: header, type of a column of an EXCLUDE constraint.
    Stopped by: format_type of the target's catalog.
    """

    def change(parts, header):
        column(header, "stay")["type"]["sql"] = (
            f"r.stay; PERFORM {burglary.expression}; r.stay := int4range"
        )

    load(change)


def test_the_expression_of_a_generated_column(load, burglary):
    """Attack: the header says that a column is generated by a call of lo_export.

    Door: header, default of a generated column that a broken CHECK reads.
    Stopped by: pg_get_expr of the target's catalog.
    """

    def change(parts, header):
        column(header, "twice")["default"] = burglary.expression

    load(change)


def test_a_default_that_is_proposed(load, burglary):
    """Attack: a default, which repairs try where nothing else keeps a CHECK, is a call.

    Door: header, default of a column; the DDL's CHECK holds for no value that is drawn.
    Stopped by: pg_get_expr of the target's catalog.
    """

    def change(parts, header):
        parts["ddl/pre.sql"] = parts["ddl/pre.sql"].replace(
            b"    CONSTRAINT sums",
            b"    CONSTRAINT never CHECK ((sqrt(((net * gross) + 9000000)::float8) < 0)),\n"
            b"    CONSTRAINT sums",
        )
        for name in ("net", "tax", "gross"):
            column(header, name)["default"] = burglary.expression

    load(change)


def test_a_commit_leaves_nothing_behind(load):
    """Attack: COMMIT within a type, then a failure: the load fails and its tables stay.

    Door: header, type of a column whose CHECK the rows break.
    Stopped by: one statement a message; the load asks at its end for the transaction it began.
    """

    def change(parts, header):
        column(header, "gross")["type"]["sql"] = (
            "integer) END AS a FROM public.guest) SELECT 1; COMMIT; SELECT 1 / 0; --"
        )
        parts["ddl/post.sql"] += b"\nALTER TABLE public.host ADD CHECK (id < 0);\n"

    assert load(change)[1] is not None


def test_a_column_said_to_be_generated(load, burglary):
    """Attack: an ordinary column is said to be generated, by a call.

    Door: header, the mark and the default of a column.
    Stopped by: the header is held against the catalog; they disagree, and nothing is loaded.
    """

    def change(parts, header):
        column(header, "net").update(generated="s", default=burglary.expression)
        header["tables"]["public.guest"]["codecs"].pop("net", None)
        header["tables"]["public.guest"]["making"]["net"] = "generated"

    assert isinstance(load(change)[1], PrivbenchError)


def refused(model, target, change):
    """What a loader says of a changed schema."""
    honest = Model.load(model)
    schema = honest.schema.to_json()
    change(None, {"schema": schema})
    with pytest.raises(ModelError) as caught:
        Loader(target, Schema.from_json(schema), honest.ddl)
    return str(caught.value)


@pytest.mark.parametrize("table", ["pg_catalog.pg_authid", "information_schema.sql_features"])
def test_a_reference_into_the_catalog(model, make_database, table):
    """Attack: a foreign key refers to pg_authid, whose password hashes would be drawn as values.

    Door: header, target of a foreign key.
    Stopped by: a key may refer to what the DDL has made, and to nothing else.
    """
    schema, _, name = table.partition(".")
    named = {"schema": schema, "name": name}
    said = refused(model, make_database(), lambda _, h: key_of(h).update(ref_table=named))
    assert f"refers to {table}, which the model's DDL does not make" in said


def test_a_reference_to_a_hidden_column(model, make_database):
    """Attack: a key refers to a system column, so that repairs hand out transaction ids.

    Door: header, columns of a foreign key.
    Stopped by: columns of keys are held against the catalog.
    """
    said = refused(model, make_database(), lambda _, h: key_of(h).update(ref_columns=["xmin"]))
    assert said.startswith("public.host.xmin: ")


def test_a_unique_set_of_a_hidden_column(load):
    """Attack: a UNIQUE set names what the table does not have.

    Door: header, columns of a key.
    Stopped by: columns of keys are held against the catalog.
    """

    def change(parts, header):
        table = next(t for t in header["schema"]["tables"] if t["name"]["name"] == "guest")
        table["uniques"] = [{**table["primary_key"], "primary": False, "columns": ["tableoid"]}]

    assert isinstance(load(change)[1], PrivbenchError)


def test_rows_for_a_table_of_the_system(load):
    """Attack: a public table named pg_catalog.pg_authid brings a superuser.

    Door: header, name of a table.
    Stopped by: rows go into tables that the DDL has made, and into no others.
    """

    def change(parts, header):
        names = ("oid", "rolname", "rolsuper", "rolinherit", "rolcreaterole", "rolcreatedb")
        names += ("rolcanlogin", "rolreplication", "rolbypassrls", "rolconnlimit")
        values = ["66666", "burglar", *"tttttttt"[:7], "-1"]
        index = header["public"].index("public.place")
        rows = pa.table({name: [value] for name, value in zip(names, values, strict=True)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        parts[f"public/{index}.arrow"] = bytes(sink.getvalue())
        header["public"][index] = "pg_catalog.pg_authid"
        place = next(t for t in header["schema"]["tables"] if t["name"]["name"] == "place")
        place["name"] = {"schema": "pg_catalog", "name": "pg_authid"}
        # Rows of a partitioned table are not copied as frozen, which the server would refuse.
        place["kind"] = "p"
        code = place["columns"][0]
        place["columns"] = [{**code, "name": name} for name in names]

    assert isinstance(load(change)[1], ModelError)


def test_a_sequence_that_is_not_the_models(load):
    """Attack: the header names another sequence than a column's own, to move it.

    Door: header, name of a sequence.
    Stopped by: sequences are those of the target's catalog.
    """

    def change(parts, header):
        parts["ddl/pre.sql"] += b"\nCREATE SEQUENCE public.other;\n"
        column(header, "id")["sequence"] = {"schema": "public", "name": "other"}
        header["schema"]["sequences"].append(
            {
                "name": {"schema": "public", "name": "other"},
                "start": 1,
                "increment": 1,
                "minimum": 1,
                "maximum": 9,
                "cycle": False,
                "owned_by": None,
            }
        )

    target, raised = load(change)
    assert raised is None
    assert ask(target, "SELECT last_value, is_called FROM other") == [(1, False)]


def test_a_column_said_to_take_null(load):
    """Attack: NOT NULL is denied, so that repairs empty the column and the load fails.

    Door: header, the mark of a column.
    Stopped by: the target's catalog says whether a column may be NULL.
    """

    def change(parts, header):
        parts["ddl/pre.sql"] = parts["ddl/pre.sql"].replace(
            b"    CONSTRAINT sums",
            b"    CONSTRAINT never CHECK ((sqrt(((net * gross) + 9000000)::float8) < 0)),\n"
            b"    CONSTRAINT sums",
        )
        for name in ("net", "gross"):
            column(header, name)["not_null"] = False

    target, raised = load(change)
    assert raised is None
    assert ask(target, "SELECT count(*) > 0 FROM guest") == [(True,)]


def test_every_text_of_the_schema_at_once(load, burglary):
    """Attack: every type, default, expression, predicate and definition is the same burglary.

    Door: header, all texts of its schema that are not names.
    Stopped by: none of them is ever SQL.
    """
    texts = {"sql", "default", "expression", "definition", "predicate", "collation"}
    texts |= {"partition_key"}

    def spoil(data):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            if isinstance(value, (dict, list)):
                spoil(value)
            elif key in texts and isinstance(value, str):
                data[key] = f"{burglary.expression}) END; {burglary.statement}; --"

    load(lambda parts, header: spoil(header["schema"]["tables"]))


def test_nothing_goes_by_the_protocol_that_takes_several_statements():
    """Attack: a text within a statement brings a second one.

    Door: any text that reaches a load.
    Stopped by: `statement.run`; this test reads the program for calls that pass it by.
    """
    folder = Path(privbench.__file__).parent / "postgres"
    names = ["load", "staging", "views", "upkeep", "sequences", "target", "role", "header"]
    files = [*(folder / "repair").glob("*.py"), *(folder / f"{name}.py" for name in names)]
    assert len(files) > 15
    calls = [
        f"{file.name}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("execute", "executemany", "pgconn")
    ]
    assert calls == []
