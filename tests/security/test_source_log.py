"""What a source's log tells of the tool: what it asks, how it begins, and how it names."""

import csv
import io
import re
from pathlib import Path
from typing import NamedTuple

import market
import postgast
import pytest
from psycopg import sql
from sql_files import sql_of

from privbench.pipeline import Model
from privbench.postgres import embedded
from privbench.postgres.ddl import dump_ddl
from privbench.postgres.introspect import check_access, introspect
from privbench.postgres.keys import key_expressions
from privbench.postgres.snapshot import Snapshot

TABLES = sql_of(__file__, "towns_of_many_types")
UGLY = (Path(__file__).parents[1] / "postgres" / "golden" / "ugly.sql").read_text(encoding="utf-8")
#: Nodes of a tree that name something, and where the name stands.
NAMES = {"FuncCall": "funcname", "TypeName": "names"}
COUNTED = "SELECT /* privbench */ pg_catalog.count(*)"
FORBIDDEN = re.compile(
    r"pg_stats|pg_statistic\b|pg_stat_|reltuples|relpages|last_value|n_live_tup|n_distinct"
    r"|information_schema\.|pg_class_size|pg_relation_size|pg_total_relation_size",
    re.I,
)
WRITING = re.compile(r"\b(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|TRUNCATE)\s", re.I)
#: Commands that read the catalog alone, and those whose questions PRIVACY P3 binds beside them.
CATALOG = ("inspect", "check", "plan", "ledger")
BOUND = (*CATALOG, "fit", "clone", "generate", "ugly")


class Said(NamedTuple):
    """A statement, and during which command it came."""

    command: str
    session: str
    program: str
    text: str


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Every statement on a source, in order."""
    program = (embedded.embedded_programs() + embedded.machine_programs())[0]
    settings = {
        **embedded.FAST,
        "log_statement": "all",
        "log_destination": "csvlog",
        "logging_collector": "on",
        "log_filename": "all.log",
        "log_rotation_size": "0",
    }
    with embedded.start(program, settings=settings) as server:
        _commands(server.dsn, tmp_path_factory.mktemp("log"))
        text = next((server.directory / "data" / "log").glob("*.csv")).read_text()
    return list(_statements(text))


def _commands(server, folder):
    names = ("house", "other", "made", "ugly")
    market.execute(server, *(f"CREATE DATABASE {name}" for name in names))
    source, other, clone, ugly = (f"{server} dbname={name}" for name in names)
    for dsn, tables in ((source, TABLES), (other, TABLES), (ugly, UGLY)):
        market.execute(dsn, tables)
    workload, config, made = folder / "w.sql", folder / "c.toml", folder / "g.json"
    workload.write_text("SELECT count(*) FROM seen;\n")
    ledger, once = ("--ledger", folder / "l"), ("--repeats", 1)
    quick = ("--synthesizer", "independent")
    for name, *words in (
        ("inspect", source, "-o", config),
        ("check", config, source),
        ("plan", config, source, "--epsilon", 4),
        ("ledger", "show", source, *ledger),
        ("fit", source, "-c", config, "--epsilon", 4, "-o", folder / "m", *ledger),
        ("clone", source, clone, "-c", config, "--epsilon", 4, "--yes", *ledger, *quick),
        ("workload", "generate", source, "-o", made, "--queries", 5),
        ("run", workload, "--on", source, "-o", folder / "a.json", *once, "--explain"),
        ("compare", source, other, "-o", folder / "r", *once, "-w", workload),
    ):
        market.execute(server, f"SELECT 'mark {words[0] if name == 'workload' else name}'")
        with pytest.MonkeyPatch.context() as patch:
            if name == "clone":
                # The model is not read back from its file.
                patch.setattr(Model, "load", None)
            market.succeed(name, *words)
        assert (folder / "l").exists() == (name not in CATALOG)
        if name == "inspect":
            config.write_text(f"{config.read_text()}\n[ledger]\npath = '{folder / 'l'}'\n")
    market.execute(server, "SELECT 'mark ugly'")
    _read_ugly(ugly)


def _read_ugly(dsn):
    with Snapshot(dsn) as snapshot:
        schema = introspect(snapshot.connection)
        check_access(snapshot.connection, schema)
        for table in schema:
            columns = [(sql.Identifier(c.name), c.name) for c in table.columns[:3]]
            for key in table.foreign_keys:
                columns += [(e, "key") for e in key_expressions(schema, key)[0]]
            if columns:
                snapshot.read(table, columns)
        dump_ddl(snapshot.connection, schema)


def _statements(text):
    command = ""
    for row in csv.reader(io.StringIO(text)):
        database, session, message, program = row[2], row[5], row[13], row[22]
        for head in ("statement: ", "execute <unnamed>: "):
            if not message.startswith(head):
                continue
            statement = message.removeprefix(head)
            if statement.startswith("SELECT 'mark "):
                command = statement[len("SELECT 'mark ") : -1]
            elif database != "made" and program in ("privbench", "pg_dump"):
                yield Said(command, session, program, statement)


@pytest.fixture(scope="module")
def own(said):
    """Every statement of the tool's own, in order."""
    return [item for item in said if item.program == "privbench"]


def test_a_reading_asks_for_nothing_forbidden_and_writes_nothing(said, own):
    """P3. pg_dump asks for sizes to order its own work by; what it prints holds none of them."""
    assert {item.command for item in own} == {*BOUND, "run", "compare"}
    assert not [i for i in own if i.command in BOUND and FORBIDDEN.search(i.text)]
    assert not [i for i in said if WRITING.search(i.text)]
    assert not [i for i in own if re.search(r"\b(ANALYZE|VACUUM)\s", i.text)]


def test_commands_of_the_catalog_read_no_row(said):
    """`check` shows the literals of the DDL, which pg_dump prints; it copies no rows for that."""
    asked = [item for item in said if item.command in CATALOG]
    read = re.compile(
        r'(?:FROM|JOIN)\s+(?:ONLY\s+)?(?:"?public"?\.)?"?(?:town|person|seen)\b', re.I
    )
    assert read.search('SELECT 1 FROM ONLY "public"."town"')
    assert len(asked) > 20
    assert {item.program for item in asked} == {"privbench", "pg_dump"}
    assert not [i for i in asked if re.search(r"\bCOPY\b", i.text)]
    assert not [i for i in asked if i.program == "privbench" and read.search(i.text)]


def test_a_clone_reads_rows_catalog_and_ddl_once(said, own):
    dumps = [i for i in said if (i.command, i.program) == ("clone", "pg_dump")]
    assert sum("ISOLATION LEVEL" in item.text for item in dumps) == 1
    texts = [item.text for item in own if item.command == "clone"]
    # The catalog is read once, and once more when the tables are locked.
    assert sum("a.attrelid::bigint AS relation" in text for text in texts) == 2
    for table in ("town", "person"):
        reads = re.compile(rf'SELECT .* FROM ONLY "public"."{table}"(?! LIMIT 0)', re.S)
        # Rows are read once for the paths of the documents, and once for all else.
        assert sum(len(reads.findall(text)) for text in texts) == 2, table
    assert any("REPEATABLE READ" in text for text in texts)


def test_first_messages_begin_read_only_and_set(own):
    """In every transaction of every session."""
    sessions = {}
    for item in own:
        sessions.setdefault(item.session, []).append(item.text)
    assert len(sessions) > 10
    for texts in sessions.values():
        open_, fresh = False, False
        for statement in texts:
            if statement.startswith("BEGIN"):
                assert statement.endswith("READ ONLY NOT DEFERRABLE"), statement
                open_, fresh = True, True
            elif statement == "ROLLBACK":
                open_ = False
            else:
                assert open_, statement
                if fresh:
                    stmts = postgast.parse(statement).stmts
                    kinds = {item.stmt.WhichOneof("node") for item in stmts}
                    assert kinds <= {"variable_set_stmt", "variable_show_stmt", "transaction_stmt"}
                    assert "SHOW" in statement
                fresh = False


def _nodes(statement):
    """Kind and content of every node of a statement's tree."""
    return [(type(node).__name__, node) for _, node in postgast.walk(postgast.parse(statement))]


def test_every_function_type_and_relation_is_qualified(own):
    """But dates in the conditions of queries to come, counted with pg_catalog alone in the path."""
    bare = set()
    known = 0
    for statement in (item.text for item in own):
        if "FROM seen" in statement or statement.startswith(("BEGIN", "ROLLBACK")):
            continue
        nodes = _nodes(statement)
        local = {node.ctename for kind, node in nodes if kind == "CommonTableExpr"}
        for kind, node in nodes:
            if kind in NAMES:
                parts = [part.string.sval for part in getattr(node, NAMES[kind])]
                known += 1
                counted = parts == ["date"] and statement.startswith(COUNTED)
                if len(parts) < 2 and not counted:
                    bare.add((kind, ".".join(parts), statement[:200]))
            elif kind == "RangeVar" and not node.schemaname and node.relname not in local:
                bare.add((kind, node.relname, statement[:200]))
    assert known > 100
    assert not bare, bare


def test_every_read_of_a_relation_says_whose_it_is(own):
    """Captured workloads leave the tool's own reads out by the comment that each begins with."""
    reads = 0
    for statement in (item.text for item in own):
        if "FROM seen" in statement or statement.startswith("LOCK"):
            continue
        relations = [node for kind, node in _nodes(statement) if kind == "RangeVar"]
        if any(node.schemaname == "public" for node in relations):
            reads += 1
            assert statement.removeprefix("COPY (").startswith("SELECT /* privbench */ "), statement
    assert reads > 20
