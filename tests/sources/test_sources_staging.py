"""Files become a database with their keys, which goes again; hostile ones reach nothing."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from duckdb_files import export, layout, write
from market import ask
from psycopg import conninfo
from pyarrow import parquet
from sql_files import cases, sql_of

from privbench.config import Config
from privbench.errors import ConfigError, DatabaseError, PrivbenchError, SchemaError, UsageError
from privbench.postgres.introspect import introspect
from privbench.postgres.keys import key_expressions, match
from privbench.postgres.snapshot import Snapshot
from privbench.schema import TableName
from privbench.sources import staged
from privbench.sources.files import Files, FileTable

SHOP = sql_of(__file__, "shop")
KEYS = sql_of(__file__, "keys.toml")
EMPTY = Config()
FOREIGN = '{"foreign_keys": [{"columns": ["x"], "table": "public.b", "references": ["x"]}]}'


def write_stated(folder, **stated):
    """A file of one table with metadata as `sample` writes it, or somebody else."""
    rows = pa.table({"id": [1, 2], "x": [4711, 4711]})
    metadata = {f"privbench.{name}": text for name, text in stated.items()}
    parquet.write_table(rows.replace_schema_metadata(metadata), folder / "a.parquet")


def constraints(dsn: str) -> list[tuple[object, ...]]:
    return ask(
        dsn,
        "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
    )


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"keys": "{"}, "cannot be read"),
        ({"keys": '{"primary_key": "id"}'}, "cannot be read"),
        ({"keys": '{"primary_key": ["nowhere"]}'}, "no such column"),
        ({"keys": '{"unique": [["id", "\\u0000"]]}'}, "no such column"),
        ({"keys": FOREIGN.replace("public.b", "a.b.c")}, "not a table name"),
        ({"keys": FOREIGN.replace("public.b", "public.a")}, "no key of as many columns"),
        ({"table": "x" * 64}, "none that PostgreSQL can have"),
        ({"table": "a.b.c"}, "not a table name"),
        ({"table": "a\0"}, "none that PostgreSQL can have"),
    ],
)
def test_what_a_parquet_file_states_is_judged_as_the_config_is(tmp_path, stated, said):
    write_stated(tmp_path, **stated)
    assert said in str(refusal(f"parquet:{tmp_path}"))


def test_keys_that_a_parquet_file_states_leave_no_column_out_and_lead_nowhere(tmp_path):
    keys = '{"primary_key": ["id"], "columns": {"id": "VARCHAR"}, "leave_out": ["x"], '
    write_stated(tmp_path, table='"my Shop".a', keys=keys + FOREIGN[1:])
    with staged(f"parquet:{tmp_path}", EMPTY) as dsn:
        assert constraints(dsn) == []
        where = (
            "SELECT string_agg(format_type(atttypid, -1), ' ') FROM pg_attribute WHERE attnum > 0"
        )
        assert ask(dsn, f"{where} AND attrelid = '\"my Shop\".a'::regclass") == [("bigint bigint",)]


def refusal(source: str, config: str = "") -> PrivbenchError:
    with pytest.raises(PrivbenchError) as caught, staged(source, Config.loads(config)):
        pass
    assert "4711" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("rows", [True, False])
def test_declared_keys_are_those_of_the_file(tmp_path, rows):
    found = []
    for source, config in (
        (write(tmp_path / "shop.db", SHOP), EMPTY),
        (export(tmp_path, SHOP), Config.loads(KEYS)),
    ):
        with staged(source, config, rows=rows) as dsn:
            found.append(constraints(dsn))
            assert ask(dsn, "SELECT count(*) FROM visit") == [(2 if rows else 0,)]
    assert found[0] == found[1]
    told = [text for _, text in found[0]]
    assert "FOREIGN KEY (mail) REFERENCES person(mail)" in told
    assert "PRIMARY KEY (person, nr)" in told
    assert "UNIQUE (mail)" in told


@pytest.mark.parametrize(("key", "row"), cases(__file__, "broken_keys"))
def test_rows_that_break_a_key_are_refused_without_their_values(tmp_path, key, row):
    table, columns = key.split(": ")
    bare = "CREATE TABLE person (id INTEGER, mail VARCHAR, name VARCHAR);"
    bare += "CREATE TABLE visit (person INTEGER, nr INTEGER, mail VARCHAR);"
    source = export(tmp_path, bare + SHOP[SHOP.index("INSERT") :] + row)
    error = refusal(source, KEYS)
    assert isinstance(error, SchemaError)
    assert error.table == table
    assert columns in str(error)
    assert "ada@x" not in str(error)


def test_keys_of_files_are_matched_as_their_copy_compares_them(tmp_path):
    """Texts by their bytes, whatever collation DuckDB has; -0 and 0, and every NaN, are equal."""
    statements = sql_of(__file__, "almost_equal")
    for source, config in (
        (write(tmp_path / "names.db", statements), EMPTY),
        (export(tmp_path, statements), Config.loads(sql_of(__file__, "almost_equal.toml"))),
    ):
        with staged(source, config) as dsn, Snapshot(dsn) as snapshot:
            schema = introspect(snapshot.connection)
            for key in schema.table("item").foreign_keys:
                sides = zip((key.table, key.ref_table), key_expressions(schema, key), strict=True)
                ours, theirs = (
                    snapshot.read(schema.table(table), [(side[0], "k")]) for table, side in sides
                )
                assert match(ours.columns, theirs.columns).tolist() == [1, 0, 1]


@pytest.mark.parametrize(("told", "config"), cases(__file__, "misfits.txt"))
def test_a_config_that_does_not_fit_the_files_is_refused(tmp_path, told, config):
    error = refusal(export(tmp_path, SHOP), config)
    assert isinstance(error, ConfigError)
    assert told in str(error)


def no_database(folder: Path) -> str:
    (folder / "x.db").write_text("4711")
    return f"duckdb://{folder}/x.db"


def broken_rows(folder: Path) -> str:
    source = export(folder, "CREATE TABLE t AS SELECT '4711' || i AS v FROM range(99999) r (i)")
    data = bytearray((folder / "t.parquet").read_bytes())
    data[100:5000] = b"\xff" * 4900
    (folder / "t.parquet").write_bytes(data)
    return source


def link_out(folder: Path) -> str:
    source = layout(folder / "in", {})
    export(folder, "CREATE TABLE t AS SELECT 1 AS a")
    (folder / "in" / "t.parquet").symlink_to(folder / "t.parquet")
    return source


def parts(*queries: str) -> Callable[[Path], str]:
    """Files of one table, in this order."""
    return lambda folder: layout(folder, {f"t/f{n}.parquet": q for n, q in enumerate(queries)})


def database(statements: str) -> Callable[[Path], str]:
    return lambda folder: write(folder / "a.db", statements)


#: Ways to a source, and what is said of it.
BAD: list[tuple[Callable[[Path], str], type[PrivbenchError], str]] = [
    (lambda folder: f"duckdb://{folder}/none.db", DatabaseError, "no file"),
    (lambda folder: f"parquet://{folder}/none", DatabaseError, "no folder"),
    (lambda folder: f"parquet://{folder}", SchemaError, "no tables"),
    (database(""), SchemaError, "no tables"),
    (no_database, DatabaseError, "cannot be opened"),
    (broken_rows, DatabaseError, "public.t"),
    (parts("SELECT 4711 AS a", "SELECT 'x4711' AS a"), SchemaError, "public.t"),
    (parts("SELECT 4711 AS a", "SELECT 4711.9::DOUBLE AS a"), SchemaError, "public.t"),
    (parts("SELECT 4711 AS a", "SELECT 4711 AS a, 1 AS b"), SchemaError, "public.t"),
    (parts("SELECT 4711 AS a, 1 AS b", "SELECT 4711 AS a"), SchemaError, "public.t"),
    (parts("SELECT 4711 AS a, 1 AS b", "SELECT 1 AS b, 4711 AS a"), SchemaError, "columns = {"),
    (
        lambda folder: layout(
            folder, dict.fromkeys(("t/f.parquet", "t.parquet/f.parquet"), "SELECT 1 AS a")
        ),
        SchemaError,
        "public.t",
    ),
    (lambda folder: parts("SELECT 1 AS a")(folder / "tenant=acme"), UsageError, "tenant=acme"),
    (link_out, UsageError, "leads out"),
    (lambda folder: layout(folder, {"[t]*.parquet": "SELECT 1 AS a"}), UsageError, "pattern"),
    (
        lambda folder: layout(folder, dict.fromkeys(("t/f.parquet", "t.parquet"), "SELECT 1 AS a")),
        SchemaError,
        "public.t",
    ),
    (database(f'CREATE TABLE "{"é" * 40}" (a INTEGER)'), SchemaError, "63 bytes"),
    (database(f'CREATE TABLE t ("{"x" * 64}" INTEGER)'), SchemaError, "63 bytes"),
    (database("CREATE TABLE t (ctid INTEGER)"), DatabaseError, "ctid"),
    (database("CREATE SCHEMA pg_own; CREATE TABLE pg_own.t (a INT)"), DatabaseError, "pg_own"),
    (
        database("CREATE TABLE t (a INT); CREATE SCHEMA public; CREATE TABLE public.t (a INT)"),
        SchemaError,
        "public.t",
    ),
]


@pytest.mark.parametrize(("make", "kind", "told"), BAD)
def test_what_cannot_be_read_is_one_clear_error(tmp_path, make, kind, told):
    error = refusal(make(tmp_path))
    assert isinstance(error, kind)
    assert told in str(error)


def test_hostile_names_are_names_and_views_are_not_read(tmp_path):
    name, column = """t"; DROP TABLE 'x' --%s{}\\""", """a"b'); SELECT 1 --%(x)s"""
    quoted = [text.replace('"', '""') for text in (name, column)]
    source = write(
        tmp_path / "it's; --.db",
        f'CREATE TABLE "{quoted[0]}" ("{quoted[1]}" INTEGER PRIMARY KEY);'
        f'INSERT INTO "{quoted[0]}" VALUES (1);'
        "CREATE VIEW secrets AS SELECT * FROM read_text('/etc/hostname')",
    )
    with Files(source) as files:
        assert [table.name for table in files.tables] == [TableName("public", name)]
        assert files.views == (TableName("public", "secrets"),)
    with staged(source, EMPTY) as dsn:
        tables = ask(dsn, "SELECT relname FROM pg_class WHERE relkind = 'r' AND oid >= 16384")
        assert tables == [(name,)]


def test_keys_are_found_however_they_are_spelled(tmp_path):
    source = write(
        tmp_path / "a.db",
        "CREATE TABLE Top (Id INT, b INT, PRIMARY KEY (ID), UNIQUE (B));"
        "CREATE TABLE low (top INT REFERENCES tOP (iD));"
        "CREATE TABLE small (top INT REFERENCES top (id))",
    )
    with staged(source, EMPTY) as dsn:
        told = [text for _, text in constraints(dsn) if "NULL" not in str(text)]
    refers = 'FOREIGN KEY (top) REFERENCES "Top"("Id")'
    assert told == ['PRIMARY KEY ("Id")', "UNIQUE (b)", refers, refers]


def test_nothing_but_the_source_can_be_opened(tmp_path):
    outside, rows = tmp_path / "inside.txt", "SELECT 1 AS a"
    outside.write_text("secret")
    columns = {"content": "VARCHAR"}
    for source in (
        layout(tmp_path / "inside", {"t.parquet": rows}),
        write(tmp_path / "a.db", f"CREATE TABLE t AS {rows}"),
    ):
        with Files(source) as files:
            for path in (outside, f"{tmp_path}/inside/../inside.txt"):
                relation = f"read_text('{path}')"
                evil = FileTable(TableName("public", "t"), {relation: columns}, columns)
                with pytest.raises(DatabaseError, match="PermissionException"):
                    list(files.batches(evil))
            assert sum(batch.num_rows for batch in files.batches(files.tables[0])) == 1


def described(dsn: str) -> list[tuple[object, ...]]:
    return ask(
        dsn,
        "SELECT attrelid::regclass::text, attname, format_type(atttypid, atttypmod), attnotnull"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid AND relkind = 'r'"
        " WHERE attnum > 0 AND relnamespace = 'public'::regnamespace ORDER BY a.attrelid, attnum",
    )


NUMBERED = {f"t/code={i}/a.parquet": f"SELECT {i} AS i" for i in range(1, 6)}
NAMES = ["K7", "1.5", "", "a=b", "%FF", "%2A", "%00", "a*b?[c]{d}", "NULL", "%", "2024-01-01"]
NAMES += ["__HIVE_DEFAULT_PARTITION__", "\\", "a\\b", "it's", 'a"b', "a\nb", "x[12]", "**", "é"]
DECLARED = """[source.tables."public.t"]
columns = {i = "BIGINT", code = "smallint", d = "decimal(4, 1)"}
"""


def numbered(tables):
    """Files of several tables t0, t1, …, each of which is given as those of a table t."""
    return {
        name.replace("t/", f"t{number}/", 1): text
        for number, files in enumerate(tables)
        for name, text in files.items()
    }


def test_a_directory_name_changes_no_type_and_refuses_nothing(tmp_path):
    tables = [
        beside | {f"t/code={value}/b.parquet": "SELECT 9 AS i" for value in values}
        for beside in (NUMBERED, {"t/code=2024-01-01/a.parquet": "SELECT 1 AS i"})
        for values in ([], ["K7"], ["1.5"], ["2024-01-01"], NAMES)
    ]
    with staged(layout(tmp_path, numbered(tables)), EMPTY) as dsn:
        found = described(dsn)
        for number, files in enumerate(tables):
            assert len(ask(dsn, f"SELECT FROM t{number}")) == len(files)
    types = [("i", "integer"), ("code", "text")]
    assert found == [
        (f"t{number}", name, kind, False) for number in range(len(tables)) for name, kind in types
    ]


def test_a_directory_name_is_the_value_whatever_its_file_holds(tmp_path):
    files = {
        "t/code=a%2Fb/a=1.parquet": "SELECT 1 AS i, 7 AS Code",
        "t/code=a=b/a.parquet": "SELECT 2 AS i, 8 AS Code",
        "t/code=__HIVE_DEFAULT_PARTITION__/x[1].parquet": "SELECT 3 AS i, 9 AS Code",
    }
    with staged(layout(tmp_path, files), EMPTY) as dsn:
        assert ask(dsn, "SELECT * FROM t ORDER BY i") == [(1, "a/b"), (2, "a=b"), (3, None)]


#: Files that come to be, and their rows.
FURTHER = [
    ({}, []),
    ({"t/b.parquet": "SELECT 7.0::DOUBLE AS i"}, [(7, None, None)]),
    ({"t/b.parquet": "SELECT 'x' AS i, 1.5 AS d, 1 AS other"}, [(None, None, 1.5)]),
    ({"t/code=3/b.parquet": "SELECT {'a': 1} AS i"}, [(None, 3, None)]),
    ({"t/code=K7/b.parquet": "SELECT [1] AS d, 2 AS i"}, [(2, None, None)]),
    ({"t/b.parquet": f'SELECT 1 AS i, 2 AS "{"x" * 64}"'}, [(1, None, None)]),
]


def test_declared_columns_do_not_depend_on_files(tmp_path):
    """A writer may take types and columns from the rows, and write no file where there are none."""
    before = [({}, []), ({"t/a.parquet": "SELECT 1 AS d, 1 AS i"}, [(1, None, 1.0)])]
    tables = [(one | more, old + new) for one, old in before for more, new in FURTHER]
    declared = "".join(DECLARED.replace("public.t", f"public.t{n}") for n in range(len(tables)))
    files = numbered(found for found, _ in tables) | {"u.parquet": "SELECT 1 AS i"}
    with staged(layout(tmp_path, files), Config.loads(declared)) as dsn:
        columns_there = described(dsn)
        for number, (_, rows) in enumerate(tables):
            told = ask(dsn, f"SELECT i, code, d::float FROM t{number}")
            assert sorted(told, key=str) == sorted(rows, key=str)
    types = [("i", "bigint"), ("code", "smallint"), ("d", "numeric(4,1)")]
    columns = [
        (f"t{number}", name, kind, False) for number in range(len(tables)) for name, kind in types
    ]
    assert sorted(columns_there) == sorted([*columns, ("u", "i", "integer", False)])


def test_columns_of_a_duckdb_file_can_be_declared(tmp_path):
    source = write(tmp_path / "a.db", "CREATE TABLE t AS SELECT 7 AS i, 1.25 AS d, 'x' AS w")
    with staged(source, Config.loads(DECLARED)) as dsn:
        assert ask(dsn, "SELECT i, code, d::float FROM t") == [(7, None, 1.3)]


#: A declared type, values in DuckDB's SQL that PostgreSQL's type does not hold, one that it does,
#: and PostgreSQL's text of that.
UNHELD = [
    (kind, values.split("\n"), *good.partition("\n")[::2])
    for kind, text in cases(__file__, "unheld_values.txt")
    for values, _, good in [text.partition("\n=>\n")]
]


@pytest.fixture(scope="module")
def unheld(tmp_path_factory):
    """A database with a table t0, t1, … for every case of `UNHELD`: values, and lists of them."""
    made, config = "", ""
    for number, (kind, values, good, _) in enumerate(UNHELD):
        rows = [
            f"({n}, {value}, [{good}, {value}], 'x')" for n, value in enumerate([*values, good])
        ]
        made += "CREATE TABLE t{} AS SELECT * FROM (VALUES {}) r (n, v, l, w);".format(
            number, ", ".join(rows)
        )
        config += f'[source.tables."public.t{number}"]\ncolumns = {{n = "BIGINT", w = "VARCHAR", '
        config += f'v = "{kind}", l = "{kind}[]"}}\n'
    path = tmp_path_factory.mktemp("unheld") / "a.db"
    with staged(write(path, made), Config.loads(config)) as dsn:
        yield dsn


@pytest.mark.parametrize("case", range(len(UNHELD)), ids=[kind for kind, *_ in UNHELD])
def test_a_value_that_its_declared_type_does_not_hold_is_null(unheld, case):
    """Also within a list, of which all else stays."""
    query = f"SELECT v::text, l[1]::text, l[2]::text, cardinality(l), w FROM t{case} ORDER BY n"
    _, values, _, text = UNHELD[case]
    held = (text, text, text, 2, "x")
    assert ask(unheld, query) == [(None, text, None, 2, "x")] * len(values) + [held]


def test_a_value_that_a_type_of_the_file_does_not_hold_is_null(tmp_path):
    statements = """CREATE TABLE t (a VARCHAR, b DATE, c VARCHAR[], d ENUM('x'));
        INSERT INTO t VALUES ('a' || chr(0), '5881580-07-10', ['u', chr(0)], 'x'),
          ('b', '2024-01-02', ['v'], NULL)"""
    for source in (write(tmp_path / "a.db", statements), export(tmp_path, statements)):
        with staged(source, EMPTY) as dsn:
            assert ask(dsn, "SELECT a, b::text, c, d FROM t ORDER BY c[1]") == [
                (None, None, ["u", None], "x"),
                ("b", "2024-01-02", ["v"], None),
            ]


def test_elements_of_declared_lists_are_converted_one_by_one(tmp_path):
    """Whatever the file has for a list, and whatever its column is called."""
    source = write(
        tmp_path / "a.db",
        """CREATE TABLE t ("an element" VARCHAR, element INTEGER[2], v JSON[], w INTEGER);
        INSERT INTO t VALUES ('[1, x]', [70000, 2], ['nan', NULL, '"a\\u0000"'], 1),
          ('[1]', NULL, [], 2), (NULL, [NULL, 3], NULL, NULL), ('{', NULL, ['[1,]', '1'], 4)""",
    )
    columns = '"an element" = "INTEGER[2]", element = "SMALLINT[]", v = "JSON[]", w = "DATE[]"'
    config = f'[source.tables."public.t"]\ncolumns = {{{columns}}}'
    with staged(source, Config.loads(config)) as dsn:
        assert ask(dsn, 'SELECT "an element", element, v::text, w FROM t ORDER BY ctid') == [
            ([1, None], [None, 2], '{NULL,NULL,"\\"a\\\\u0000\\""}', None),
            (None, None, "{}", None),
            (None, [None, 3], None, None),
            (None, None, "{NULL,1}", None),
        ]


def test_the_copy_is_private_and_goes(tmp_path):
    with staged(write(tmp_path / "shop.db", SHOP), EMPTY) as dsn:
        assert ask(dsn, "SHOW listen_addresses") == [("",)]
        assert ask(dsn, "SELECT usesuper FROM pg_user WHERE usename = current_user") == [(False,)]
        sockets = str(conninfo.conninfo_to_dict(dsn)["host"])
        home = Path(sockets).parent
        for folder in (home, sockets, *(file.parent for file in home.glob("*/data/PG_VERSION"))):
            assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        ask(dsn, "SELECT 1")


def test_without_the_extra_one_line_says_so(tmp_path):
    code = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from privbench.cli import main; main()"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", f"parquet://{tmp_path}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert "pip install 'privbench[duckdb]'" in done.stderr
