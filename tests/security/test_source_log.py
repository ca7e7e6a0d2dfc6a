"""What the server's log tells of the tool's own statements: where they begin, and how they name."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import market
import postgast
import pytest

from privbench.postgres import embedded

TABLES = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE town (id integer PRIMARY KEY, name varchar(20) NOT NULL, size smallint, open time);
CREATE TABLE person (
  id integer PRIMARY KEY, town integer REFERENCES town, note text, age integer, born date,
  moods mood[], mood mood, stay daterange, paid numeric(8,2), seen timestamptz, took interval,
  body jsonb, tag uuid, CHECK (age >= 0));
INSERT INTO town SELECT g, 'town ' || g, g, '12:30' FROM generate_series(1, 8) g;
INSERT INTO person SELECT g, g % 8 + 1, 'note ' || g % 5, g % 70, '2001-02-03', '{sad}', 'glad',
  '[2001-01-01,2001-02-01)', g * 0.5, now(), '1 hour', '{}', gen_random_uuid()
FROM generate_series(1, 600) g;
CREATE VIEW seen AS SELECT * FROM person;
"""
#: Nodes of a tree that name something, and where the name stands.
NAMES = {"FuncCall": "funcname", "TypeName": "names"}
COUNTED = "SELECT /* privbench */ pg_catalog.count(*)"


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """(session, statement) of every statement of the tool's own, in order."""
    folder = tmp_path_factory.mktemp("log")
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
        other = f"{server.dsn} dbname=other"
        market.execute(server.dsn, "CREATE DATABASE other", TABLES)
        market.execute(other, TABLES)
        _commands(server.dsn, other, folder)
        assert server.directory is not None
        text = next((server.directory / "data" / "log").glob("*.csv")).read_text()
    return list(_own(text))


def _commands(source: str, other: str, folder: Path) -> None:
    workload = folder / "w.sql"
    workload.write_text("SELECT count(*) FROM seen;\n")
    config, made = folder / "c.toml", folder / "g.json"
    for words in (
        ["inspect", source, "-o", config],
        ["check", config, source],
        ["plan", config, source, "--epsilon", 4],
        ["fit", source, "-c", config, "--epsilon", 4, "-o", folder / "m", "--ledger", folder / "l"],
        ["workload", "generate", source, "-o", made, "--queries", 5],
        ["run", workload, "--on", source, "-o", folder / "a.json", "--repeats", 1, "--explain"],
        ["compare", source, other, "-o", folder / "r", "--repeats", 1, "-w", workload],
        ["ledger", "show", source, "--ledger", folder / "l"],
    ):
        result = market.run(*words)
        assert result.exit_code == 0, result.output


def _own(text: str) -> Iterator[tuple[str, str]]:
    for row in csv.reader(io.StringIO(text)):
        message, program, session = row[13], row[22], row[5]
        for head in ("statement: ", "execute <unnamed>: "):
            if program == "privbench" and message.startswith(head):
                yield session, message.removeprefix(head)


def test_the_first_message_is_begin_read_only_and_the_second_sets_and_shows(
    statements: list[tuple[str, str]],
) -> None:
    """Door: whatever is asked before settings hold, or outside a transaction.

    What stops it: BEGIN … READ ONLY, SET LOCAL and SHOW are utility statements and come first, in
    every transaction of every session.
    """
    sessions: dict[str, list[str]] = {}
    for session, statement in statements:
        sessions.setdefault(session, []).append(statement)
    assert len(sessions) > 10
    for told in sessions.values():
        open_, fresh = False, False
        for statement in told:
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


def _nodes(statement: str) -> list[tuple[str, Any]]:
    """Kind and content of every node of a statement's tree."""
    return [(type(node).__name__, node) for _, node in postgast.walk(postgast.parse(statement))]


def test_every_function_type_and_relation_is_qualified(statements: list[tuple[str, str]]) -> None:
    """Door: a name that a schema of the source offers too.

    What stops it: every name of the tool's own questions carries its schema. Conditions that
    `workload generate` counts by are the text of the queries to come, in which a date's type is
    written as people write it; the path that they are counted under holds pg_catalog alone.
    """
    bare: set[tuple[str, str, str]] = set()
    known = 0
    for _, statement in statements:
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


def test_every_read_of_a_relation_says_whose_it_is(statements: list[tuple[str, str]]) -> None:
    """Captured workloads leave the tool's own reads out by the comment that each begins with."""
    reads = 0
    for _, statement in statements:
        if "FROM seen" in statement or statement.startswith("LOCK"):
            continue
        relations = [node for kind, node in _nodes(statement) if kind == "RangeVar"]
        if any(node.schemaname == "public" for node in relations):
            reads += 1
            assert statement.removeprefix("COPY (").startswith("SELECT /* privbench */ "), statement
    assert reads > 20
