"""Patterns choose what psql's own choose; what fits nothing is refused."""

from __future__ import annotations

import subprocess

import pytest
from psycopg import conninfo

from privbench.errors import SchemaError
from privbench.postgres import binaries
from privbench.postgres.connect import connect
from privbench.postgres.introspect import introspect

PATTERNS = [
    "public.sale",
    "PUBLIC.Sale*",
    'public."Sale*"',
    'public."Sale"',
    "*.sale?",
    "pub*.*",
    '"Odd ""Shop"""."a.b*"',
    "*.a.b",
    'odd*."x"',
    "public.s$le",
    "*.sale_2",
]


@pytest.fixture(scope="module")
def dsn(make_database):
    found = make_database()
    with connect(found) as connection:
        connection.execute(
            'CREATE SCHEMA "Odd ""Shop"""; CREATE SCHEMA other;'
            "CREATE TABLE sale (i int); CREATE TABLE sales (i int); CREATE TABLE s$le (i int);"
            'CREATE TABLE "Sale" (i int); CREATE TABLE "Sale*" (i int);'
            'CREATE TABLE other.sale_2 (i int); CREATE TABLE "Odd ""Shop"""."a.b*" (i int);'
            'CREATE TABLE "Odd ""Shop""".x (i int); CREATE VIEW other.sale_v AS SELECT 1'
        )
        connection.commit()
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
def test_introspect_by_patterns_chooses_what_psql_does(dsn, pattern):
    psql = binaries.find("psql", binaries.machine_directories() + binaries.package_directories())
    if not psql:
        pytest.skip("there is no psql")
    command = [psql[0].path, conninfo.make_conninfo(dsn), "-XAtq", "-c", rf"\dt {pattern}"]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    known = sorted(tuple(line.split("|")[:2]) for line in done.stdout.splitlines())
    with connect(dsn) as connection:
        try:
            found = introspect(connection, tables=[pattern])
        except SchemaError:
            assert known == []
        else:
            assert [(table.name.schema, table.name.name) for table in found] == known


@pytest.mark.parametrize(
    ("chosen", "tables", "views"),
    [
        ({"schemas": ["oth*"]}, ["other.sale_2"], ["other.sale_v"]),
        ({"tables": ["sale_*"]}, ["other.sale_2"], ["other.sale_v"]),
        ({"tables": ["sale_*"], "exclude": ["*_v"]}, ["other.sale_2"], []),
        ({"schemas": ["public"], "tables": ["s*"], "exclude": ['"S*']}, None, None),
        ({"schemas": ["public"], "tables": ["sale_*"]}, None, None),
        ({"tables": ["public.Sale"]}, ['public."Sale"'], []),
        ({"tables": ["a.b.c"]}, None, None),
    ],
)
def test_introspect_by_several_choices_takes_them_together(dsn, chosen, tables, views):
    with connect(dsn) as connection:
        if tables is None:
            with pytest.raises(SchemaError, match=r"does not exist|is not a name"):
                introspect(connection, **chosen)
            return
        found = introspect(connection, **chosen)
    assert [table.key for table in found] == tables
    assert [str(name) for name in found.views] == views
    assert set(found.schemas) == {table.name.schema for table in found}
