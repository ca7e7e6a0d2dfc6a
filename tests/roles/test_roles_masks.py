"""Masks of PostgreSQL Anonymizer as hints, read from rows that its labels leave in pg_seclabel.

The extension itself is not installed where these tests run: a superuser writes the rows.
"""

import psycopg
import pytest
from sql_files import cases, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.encoding.surrogates import providers
from privbench.postgres.ddl import dump_ddl
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import reading
from privbench.roles import Kind, masks
from privbench.roles.facts import PROVIDERS
from privbench.schema import Table, TableName

#: Column, label, and what the config says of the column then.
LABELS = [
    (place, label, None if kind == "nothing" else (*kind.split(), None)[:2])
    for title, label in cases(__file__, "labels")
    for place, kind in [title.split(": ")]
]
BASE = """
[tables."public.holder".columns.mine]
kind = "categories"
"""


@pytest.fixture(scope="module")
def labelled(make_database):
    """A database with labels of the extension, of another provider, and of a whole table."""
    dsn = make_database()
    rows = [(*place.split("."), "anon", label) for place, label, _ in LABELS]
    rows += [("style", "name", "selinux", "MASKED WITH FUNCTION anon.fake_city()")]
    rows += [("style", None, "anon", "TABLESAMPLE BERNOULLI(33)")]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql_of(__file__, "holders"))
        for table, column, provider, label in rows:
            connection.execute(
                "INSERT INTO pg_catalog.pg_seclabel SELECT %(t)s::regclass, 'pg_class'::regclass,"
                " coalesce((SELECT attnum FROM pg_attribute WHERE attrelid = %(t)s::regclass"
                " AND attname = %(c)s), 0), %(p)s, %(l)s",
                {"t": table, "c": column, "p": provider, "l": label},
            )
    return dsn


def test_masked_columns_are_hints_for_kinds_and_roles(labelled):
    found = pipeline.inspect(labelled, base=Config.loads(BASE), lookups="public")
    kinds = {
        f"{name.removeprefix('public.')}.{column}": (section.kind, section.faker)
        for name, table in found.config.tables.items()
        for column, section in table.columns.items()
    }
    assert kinds == {place: kind for place, _, kind in LABELS if kind is not None}
    assert Config.loads(found.config.dumps()).tables == found.config.tables
    # What the functions make says who a table is about, and no masked table is a public look-up.
    assert found.proposal.tables["public.holder"].kind is Kind.GUEST
    assert found.proposal.lookups == ("public.style",)
    said = found.render()
    assert "Masked for PostgreSQL Anonymizer, which was taken for a hint: public." in said
    assert "public.holder.shown," not in said
    how = {f"{line.table}.{line.column}": line.how for line in found.plan.coverage()}
    assert how["public.holder.label"].startswith("surrogate last_name")
    assert how["public.holder.account"] == "NULL, not read"


def test_labels_do_not_travel(labelled):
    with reading(labelled) as connection:
        schema = introspect(connection)
        ddl = dump_ddl(connection, schema)
    assert schema.table("genre").labels == (("name", LABELS[-1][1]),)
    for text in (str(schema.to_json()), ddl.pre_data, ddl.post_data):
        assert "MASKED" not in text
        assert "anon." not in text


@pytest.mark.parametrize(
    ("label", "made"),
    [
        ("MASKED WITH FUNCTION anon.dummy_free_email()", "free_email"),
        ("MASKED WITH FUNCTION pseudo_city(id)", "city"),
        ("MASKED WITH FUNCTION anon.fake_fake_name()", "fake_name"),
        ("MASKED WITH FUNCTION anon.partial(phone, 2, $$**$$, 2)", "partial"),
        ("MASKED WITH VALUE 'MASKED WITH FUNCTION anon.fake_city()'", ""),
        ("MASKED WITH FUNCTION \x1b[31manon.fake_city()", None),
        ("QUASI IDENTIFIER", None),
        ("", None),
    ],
)
def test_a_label_says_what_its_function_makes(label, made):
    table = Table(TableName("public", "t"), (), labels=(("c", label),))
    assert masks(table).get("c") == made


def test_every_hint_is_a_provider_of_surrogate_text():
    assert set(PROVIDERS.values()) <= providers()
