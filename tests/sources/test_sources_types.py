"""Every type of DuckDB that has a counterpart arrives in PostgreSQL as the same value."""

from pathlib import Path

import duckdb
import psycopg
import pytest
from psycopg import sql

from privbench.config import Config
from privbench.errors import DatabaseError, SchemaError
from privbench.sources import staged
from privbench.sources.types import SIMPLE

#: DuckDB's literal, PostgreSQL's type, PostgreSQL's text.
VALUES = [
    ("true", "boolean", "true"),
    ("(-128)::TINYINT", "smallint", "-128"),
    ("(-32768)::SMALLINT", "smallint", "-32768"),
    ("(-2147483648)::INTEGER", "integer", "-2147483648"),
    ("9223372036854775807::BIGINT", "bigint", "9223372036854775807"),
    ("255::UTINYINT", "smallint", "255"),
    ("65535::USMALLINT", "integer", "65535"),
    ("4294967295::UINTEGER", "bigint", "4294967295"),
    ("18446744073709551615::UBIGINT", "numeric(20,0)", "18446744073709551615"),
    ("(-170141183460469231731687303715884105727)::HUGEINT", "numeric(39,0)",
     "-170141183460469231731687303715884105727"),
    ("340282366920938463463374607431768211455::UHUGEINT", "numeric(39,0)",
     "340282366920938463463374607431768211455"),
    ("0.1::FLOAT", "real", "0.1"),
    ("'-inf'::FLOAT", "real", "-Infinity"),
    ("1e-300::DOUBLE", "double precision", "1e-300"),
    ("'nan'::DOUBLE", "double precision", "NaN"),
    ("(-1234567.891)::DECIMAL(18,3)", "numeric(18,3)", "-1234567.891"),
    ("'it''s \"a\", b\\\n'::VARCHAR", "text", "it's \"a\", b\\\n"),
    ("''", "text", ""),
    ("'null'", "text", "null"),
    ("'b'::ENUM('a', 'b')", "text", "b"),
    ("'\\x00\\xAA'::BLOB", "bytea", "\\x00aa"),
    ("''::BLOB", "bytea", "\\x"),
    ("'0101'::BIT", "bit varying", "0101"),
    ("'{\"a\": 1,  \"a\": null}'::JSON", "json", '{"a": 1,  "a": null}'),
    ("'c0ffee00-0000-4000-8000-000000000001'::UUID", "uuid",
     "c0ffee00-0000-4000-8000-000000000001"),
    ("'2024-02-29'::DATE", "date", "2024-02-29"),
    ("'0044-03-15 (BC)'::DATE", "date", "0044-03-15 BC"),
    ("'-infinity'::DATE", "date", "-infinity"),
    ("'24:00:00'::TIME", "time without time zone", "24:00:00"),
    ("'23:59:59.1234567'::TIME_NS", "time without time zone", "23:59:59.123457"),
    ("'12:00:00.5-05:30'::TIMETZ", "time with time zone", "12:00:00.5-05:30"),
    ("'2024-02-29 12:00:00.000001'::TIMESTAMP", "timestamp without time zone",
     "2024-02-29 12:00:00.000001"),
    ("'0044-03-15 (BC) 12:00:00'::TIMESTAMP", "timestamp without time zone",
     "0044-03-15 12:00:00 BC"),
    ("'infinity'::TIMESTAMP", "timestamp without time zone", "infinity"),
    ("'2024-02-29 12:00:00'::TIMESTAMP_S", "timestamp without time zone", "2024-02-29 12:00:00"),
    ("'2024-02-29 12:00:00.125'::TIMESTAMP_MS", "timestamp without time zone",
     "2024-02-29 12:00:00.125"),
    ("'2024-02-29 12:00:00.123456789'::TIMESTAMP_NS", "timestamp without time zone",
     "2024-02-29 12:00:00.123457"),
    ("'2024-02-29 12:00:00+02:00'::TIMESTAMPTZ", "timestamp with time zone",
     "2024-02-29 10:00:00+00"),
    ("INTERVAL '-14 months 3 days -4 hours 0.5 seconds'", "interval",
     "-1 years -2 mons +3 days -03:59:59.5"),
    ("[1, NULL, 3]::INTEGER[]", "integer[]", "{1,NULL,3}"),
    ("[1.5, 2]::DOUBLE[2]", "double precision[]", "{1.5,2}"),
    ("['a', NULL, '', 'NULL', '\"\\,{}']", "text[]", '{a,NULL,"","NULL","\\"\\\\,{}"}'),
    ("[]::VARCHAR[]", "text[]", "{}"),
    ("['a]', 'b']::ENUM('a]', 'b')[]", "text[]", "{a],b}"),
    ("[DATE '2024-02-29', NULL]", "date[]", "{2024-02-29,NULL}"),
    ("[1.25::DECIMAL(9,2)]", "numeric(9,2)[]", "{1.25}"),
    ("['\\xAA'::BLOB]", "bytea[]", '{"\\\\xaa"}'),
]  # fmt: skip
#: Types that a Parquet file holds as another one.
NOT_IN_PARQUET = ("HUGEINT", "BIT", "'::TIME", "TIME_NS", "TIMETZ", "infinity", "INTERVAL", "BC",
                  "TIMESTAMP_", "ENUM", "::DOUBLE[2]")  # fmt: skip
EMPTY = Config()


def write(path: Path, statements: str) -> str:
    with duckdb.connect(str(path)) as connection:
        connection.execute(statements)
    return f"duckdb://{path}"


def columns_of(dsn: str) -> list[tuple[str, str | None, bool]]:
    """Type, text and whether the second row is NULL, of every column of table ``t``."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET timezone TO 'UTC'")
        described = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum"
        ).fetchall()
        found = []
        for name, kind in described:
            query = sql.SQL("SELECT {}::text FROM t ORDER BY ctid").format(sql.Identifier(name))
            first, second = connection.execute(query).fetchall()
            found.append((kind, first[0], second[0] is None))
    return found


@pytest.mark.parametrize("form", ["duckdb", "parquet"])
def test_stream_of_odd_values_gives_them_as_they_are(tmp_path, form):
    values = [
        item for item in VALUES
        if form == "duckdb" or not any(word in item[0] for word in NOT_IN_PARQUET)
    ]  # fmt: skip
    listed = ", ".join(f"{literal} AS c{i}" for i, (literal, _, _) in enumerate(values))
    nulls = ", ".join(f"CASE WHEN false THEN {literal} END" for literal, _, _ in values)
    made = write(tmp_path / "a.db", f"CREATE TABLE t AS SELECT {listed} UNION ALL SELECT {nulls}")
    if form == "parquet":
        write(tmp_path / "a.db", f"COPY t TO '{tmp_path}/t.parquet'")
        made = f"parquet://{tmp_path}"
    with staged(made, EMPTY) as dsn:
        assert columns_of(dsn) == [(kind, text, True) for _, kind, text in values]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("{'a': 1}", "STRUCT"),
        ("MAP {'a': 1}", "MAP"),
        ("union_value(a := 1)", "UNION"),
        ("[[1], [2]]", "INTEGER[][]"),
        ("[{'a': 1}]", "STRUCT"),
        ("1::BIGNUM", "BIGNUM"),
    ],
)
def test_a_type_without_counterpart_is_refused_and_can_be_left_out(tmp_path, column, kind):
    made = write(
        tmp_path / "a.db",
        f"CREATE TABLE t AS SELECT 1 AS id, {column} AS odd; ALTER TABLE t ALTER odd SET NOT NULL",
    )
    with pytest.raises(SchemaError) as caught, staged(made, EMPTY):
        pass
    assert (caught.value.table, caught.value.column) == ("public.t", "odd")
    assert kind in str(caught.value)
    assert "leave_out" in str(caught.value)
    without = Config.loads('[source.tables."public.t"]\nleave_out = ["odd"]')
    with staged(made, without) as dsn, psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "value", ["'secret' || chr(0)", "DATE '5877642-06-25 (BC)'", "['secret' || chr(0)]"]
)
def test_a_value_that_postgresql_cannot_hold_is_named_by_its_column(tmp_path, value):
    made = write(tmp_path / "a.db", f"CREATE TABLE t AS SELECT 'x' AS w, {value} AS v")
    with pytest.raises(DatabaseError) as caught, staged(made, EMPTY):
        pass
    assert (caught.value.table, caught.value.column) == ("public.t", "v")
    assert "secret" not in str(caught.value)
    assert "5877642" not in str(caught.value)


def test_the_documentation_names_every_type():
    page = (Path(__file__).parents[2] / "docs" / "sources.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    told = {kind.strip().strip("`"): row[2].strip().strip("`")
            for row in rows for kind in row[1].split(",")}  # fmt: skip
    assert {kind: told.get(kind) for kind in SIMPLE} == SIMPLE
