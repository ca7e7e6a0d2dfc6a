"""Texts of a stranger's header never become SQL of the repairs, even under a superuser."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from market import ask
from sql_files import sql_of

import privbench
from privbench import pipeline
from privbench.errors import ModelError, PrivbenchError
from privbench.pipeline import Model
from privbench.postgres.load import Loader
from privbench.schema import TableName

#: Rows that `independent` draws break every CHECK and the EXCLUDE constraint of this schema.
SCHEMA = sql_of(__file__, "header_repairs")
PUBLIC = '[tables."public.place"]\nrole = "public"\n[tables."public.guest"]\nown = []\n'


@pytest.fixture(scope="module")
def model(fitted):
    return fitted(SCHEMA, PUBLIC)


@pytest.fixture
def load(model, forge, make_database, burglary):
    """``load(change)``: the target after a load of the changed model, and what the load raised."""

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


def table_of(header, name="guest"):
    """A table of the header's schema."""
    return next(t for t in header["schema"]["tables"] if t["name"]["name"] == name)


def column(header, name):
    """A column of the guests."""
    return next(c for c in table_of(header)["columns"] if c["name"] == name)


def test_load_of_an_honest_copy_repairs_it(load):
    """The repairs that the attacks aim at do run."""
    target, raised = load(lambda parts, header: None)
    assert raised is None
    assert ask(target, "SELECT count(*) > 20, bool_and(gross = net + tax) FROM guest") == [
        (True, True)
    ]


def test_load_of_programs_takes_them_by_trust_alone(model, forge, make_database):
    body = b"BEGIN ATOMIC SELECT 1; SELECT 2; END;"
    program = b"CREATE FUNCTION public.two() RETURNS int LANGUAGE sql " + body
    forged = forge(
        model, lambda parts, _: parts.update({"ddl/pre.sql": parts["ddl/pre.sql"] + program})
    )
    target = make_database()
    assert "defines a function" in pipeline.load(forged, target).lost[0]
    pipeline.load(forged, target, trust_programs=True, replace=True)
    assert ask(target, "SELECT two()") == [(2,)]


#: A CHECK that holds for no value that is drawn, so that repairs try all that they know.
SUMS = b"    CONSTRAINT sums"
NEVER = b"    CONSTRAINT never CHECK ((sqrt(((net * gross) + 9000000)::float8) < 0)),\n" + SUMS


def typed(name, text):
    """Another type of a guest's column."""
    return lambda parts, header, told: column(header, name)["type"].update(sql=text.format(**told))


def a_call_in_each_type(parts, header, told):
    for name in ("gross", "net", "tax"):
        text = "integer) + CAST({expression} AS integer"
        column(header, name)["type"]["sql"] = text.format(**told)


def never_kept(parts, header, **changes):
    """Other columns, beside a CHECK that holds for no value that is drawn."""
    parts["ddl/pre.sql"] = parts["ddl/pre.sql"].replace(SUMS, NEVER)
    for name in ("net", "tax", "gross"):
        column(header, name).update(changes)


def a_commit(parts, header, told):
    column(header, "gross")["type"]["sql"] = (
        "integer) END AS a FROM public.guest) SELECT 1; COMMIT; SELECT 1 / 0; --"
    )
    parts["ddl/post.sql"] += b"\nALTER TABLE public.host ADD CHECK (id < 0);\n"


def a_name_that_is_sql(parts, header, told):
    text = json.dumps(header["schema"]).replace(
        '"host_pkey"', json.dumps('x"; DROP TABLE host; --')
    )
    header["schema"] = json.loads(text)


def a_column_said_to_be_generated(parts, header, told):
    column(header, "net").update(generated="s", default=told["expression"])
    header["tables"]["public.guest"]["codecs"].pop("net", None)
    header["tables"]["public.guest"]["making"]["net"] = "generated"


def a_unique_set_of_a_hidden_column(parts, header, told):
    table = table_of(header)
    table["uniques"] = [{**table["primary_key"], "primary": False, "columns": ["tableoid"]}]


def a_superuser_by_pg_authid(parts, header, told):
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
    place = table_of(header, "place")
    place["name"] = {"schema": "pg_catalog", "name": "pg_authid"}
    # Rows of a partitioned table are not copied as frozen, which the server would refuse.
    place["kind"] = "p"
    place["columns"] = [{**place["columns"][0], "name": name} for name in names]


def another_sequence(parts, header, told):
    name = {"schema": "public", "name": "other"}
    parts["ddl/pre.sql"] += b"\nCREATE SEQUENCE public.other;\n"
    column(header, "id")["sequence"] = name
    bounds = {"start": 1, "increment": 1, "minimum": 1, "maximum": 9}
    sequence = {"name": name, **bounds, "cycle": False, "owned_by": None}
    header["schema"]["sequences"].append(sequence)


def every_text_at_once(parts, header, told):
    texts = {"sql", "default", "expression", "definition", "predicate", "collation"}
    texts |= {"partition_key"}

    def spoil(data):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            if isinstance(value, (dict, list)):
                spoil(value)
            elif key in texts and isinstance(value, str):
                data[key] = "{expression}) END; {statement}; --".format(**told)

    spoil(header["schema"]["tables"])


#: The door is the header. What it says, what stops it, and whether the load is refused (None: the
#: server may find another fault first), or what a query of the clone answers.
ATTACKS = {
    "a type that ends the repair's CASE and begins a COPY TO PROGRAM": (
        typed("gross", "integer) END AS a FROM public.guest) SELECT 1; {statement}; --"),
        "format_type of the target's catalog; one statement a message", None),
    "types that go on as an expression, all within one statement": (
        a_call_in_each_type, "format_type of the target's catalog", None),
    "a range's type that becomes a call within the PL/pgSQL that moves rows": (
        typed("stay", "r.stay; PERFORM {expression}; r.stay := int4range"),
        "format_type of the target's catalog", None),
    "a generated column's expression that calls lo_export": (
        lambda parts, header, told: column(header, "twice").update(default=told["expression"]),
        "pg_get_expr of the target's catalog", None),
    "a default, which repairs try where nothing else keeps a CHECK, that is a call": (
        lambda p, h, told: never_kept(p, h, default=told["expression"]),
        "pg_get_expr of the target's catalog", None),
    "COMMIT within a type, then a failure: the load fails and its tables stay": (
        a_commit, "one statement a message; the load asks for the transaction it began",
        PrivbenchError),
    "an ordinary column that is said to be generated, by a call": (
        a_column_said_to_be_generated, "the header is held against the catalog", PrivbenchError),
    "a UNIQUE set that names what the table does not have": (
        a_unique_set_of_a_hidden_column, "columns of keys are held against the catalog",
        PrivbenchError),
    "a public table named pg_catalog.pg_authid that brings a superuser": (
        a_superuser_by_pg_authid, "rows go into tables that the DDL has made", ModelError),
    "another sequence than a column's own, to move it": (
        another_sequence, "sequences are those of the target's catalog",
        ("SELECT last_value, is_called FROM other", (1, False))),
    "NOT NULL that is denied, so that repairs empty the column and the load fails": (
        lambda p, h, told: never_kept(p, h, not_null=False),
        "the target's catalog says whether a column may be NULL",
        ("SELECT count(*) > 0 FROM guest", (True,))),
    "SQL in the place of a constraint's name": (
        a_name_that_is_sql, "names are only names",
        ("SELECT count(*) > 0 FROM host", (True,))),
    "every type, default, expression, predicate and definition at once": (
        every_text_at_once, "none of them is ever SQL", None),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_load_of_texts_in_a_header_runs_none(load, burglary, attack):
    change, _, wanted = ATTACKS[attack]
    told = {"statement": burglary.statement, "expression": burglary.expression}
    target, raised = load(lambda parts, header: change(parts, header, told))
    if isinstance(wanted, tuple):
        assert raised is None
        assert ask(target, wanted[0]) == [wanted[1]]
    elif wanted is not None:
        assert isinstance(raised, wanted)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ({"ref_table": TableName("pg_catalog", "pg_authid")},
         "refers to pg_catalog.pg_authid, which the model's DDL does not make"),
        ({"ref_table": TableName("information_schema", "sql_features")},
         "refers to information_schema.sql_features, which the model's DDL does not make"),
        ({"ref_columns": ("xmin",)}, "public.host.xmin: "),
        ({"columns": ("xmin",)}, "public.guest.xmin: "),
        (None, "public.guest.stay: "),
    ],
)  # fmt: skip
def test_loader_of_keys_unlike_the_catalogs_is_refused(model, make_database, key, said):
    """Keys to secrets, to system columns, and of a column that the header hides (None)."""
    honest = Model.load(model)
    guest = honest.schema.table("public.guest")
    *columns, _ = guest.columns
    other = replace(guest, columns=tuple(columns))
    if key is not None:
        other = replace(guest, foreign_keys=(replace(guest.foreign_keys[0], **key),))
    tables = tuple(other if table is guest else table for table in honest.schema)
    with pytest.raises(ModelError, match=re.escape(said)):
        Loader(make_database(), replace(honest.schema, tables=tables), honest.ddl)


def test_load_sends_one_statement_a_message():
    """No call passes `statement.run` by."""
    folder = Path(privbench.__file__).parent / "postgres"
    names = ["load", "copy_in", "finishing", "target"]
    files = [*(folder / "repair").glob("*.py"), *(folder / f"{name}.py" for name in names)]
    assert len(files) > 12
    calls = [
        f"{file.name}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("execute", "executemany", "pgconn")
    ]
    assert calls == []
