"""Every type of DuckDB that has a counterpart arrives in PostgreSQL as the same value."""

import psycopg
import pytest
from duckdb_files import write
from psycopg import sql
from pyarrow import parquet
from sql_files import cases, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.errors import SchemaError
from privbench.sources import staged

#: DuckDB's literal, PostgreSQL's type, PostgreSQL's text.
VALUES = [
    (literal, kind, text.removeprefix(" "))
    for kind, body in cases(__file__, "values")
    for literal, _, text in [body.partition("\n=>")]
]
#: Types that a Parquet file holds as another one.
NOT_IN_PARQUET = ("HUGEINT", "BIT", "'::TIME", "TIME_NS", "TIMETZ", "infinity", "INTERVAL", "BC",
                  "TIMESTAMP_", "ENUM", "::DOUBLE[2]")  # fmt: skip
EMPTY = Config()


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


#: Columns of ``kinds.sql`` as Arrow has them where all values fit; all others are texts.
IN_ARROW = {
    "id": "int32", "b": "bool", "s": "int16", "g": "int64", "r": "float", "f": "double",
    "n": "decimal128(9, 2)", "day": "date32[day]", "at": "timestamp[us]",
    "zoned": "timestamp[us, tz=UTC]", "hour": "time64[us]", "u": "extension<arrow.uuid>",
    "raw": "binary",
}  # fmt: skip


def test_samples_have_types_of_arrow_and_are_the_same_source_again(make_database, tmp_path):
    source = make_database(sql_of(__file__, "kinds"))
    config = Config.loads('[tables."public.kinds"]\nrole = "public"\n').with_privacy(epsilon=8)
    config = config.changed("ledger", path=str(tmp_path / "ledger"))
    pipeline.fit(source, pipeline.inspect(source, base=config).config, tmp_path / "m")
    pipeline.sample(tmp_path / "m", tmp_path / "files", file_format="parquet")
    rows = parquet.read_table(tmp_path / "files" / "public.kinds.parquet")
    found = {field.name: str(field.type) for field in rows.schema}
    assert found == dict.fromkeys(found, "string") | IN_ARROW
    assert [str(kind) for kind in rows.select(["day", "zoned"]).to_pandas().dtypes] == [
        "object", "datetime64[us, UTC]"
    ]  # fmt: skip
    with staged(f"parquet://{tmp_path / 'files'}", EMPTY) as again:
        texts = []
        for dsn in (source, again):
            catalog = pipeline.look(dsn, EMPTY).schema.table("public.kinds")
            with psycopg.connect(dsn) as connection:
                connection.execute("SET timezone TO 'UTC'")
                values = connection.execute("SELECT k::text FROM kinds k ORDER BY id").fetchall()
            kinds = {column.name: column.type.sql for column in catalog.columns}
            texts.append((catalog.primary_columns, [*catalog.unique_sets], kinds, values))
    assert texts[0] == texts[1]
