"""What the source's own log says of a reading: nothing that PRIVACY P3 forbids is asked."""

import re
from pathlib import Path

from psycopg import sql

from privbench.postgres import embedded
from privbench.postgres.connect import connect
from privbench.postgres.ddl import dump_ddl
from privbench.postgres.introspect import check_access, introspect
from privbench.postgres.keys import key_expressions
from privbench.postgres.snapshot import Snapshot

UGLY = (Path(__file__).parent / "golden" / "ugly.sql").read_text(encoding="utf-8")
FORBIDDEN = re.compile(
    r"pg_stats|pg_statistic\b|reltuples|relpages|last_value|information_schema\.|n_distinct", re.I
)
WRITING = re.compile(r"statement: .*\b(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|TRUNCATE)\s", re.I)


def test_a_reading_asks_for_nothing_forbidden_and_writes_nothing():
    program = (embedded.embedded_programs() + embedded.machine_programs())[0]
    settings = {**embedded.FAST, "log_statement": "all", "log_line_prefix": "|%a|"}
    with embedded.start(program, settings=settings) as server:
        with connect(server.dsn, autocommit=True) as owner:
            owner.execute(UGLY.encode())
        log = server.directory / "log"
        before = len(log.read_text(errors="replace"))
        with Snapshot(server.dsn) as snapshot:
            schema = introspect(snapshot.connection)
            check_access(snapshot.connection, schema)
            for table in schema:
                columns = [(sql.Identifier(c.name), c.name) for c in table.columns[:3]]
                for key in table.foreign_keys:
                    columns += [(e, "key") for e in key_expressions(schema, key)[0]]
                if columns:
                    snapshot.read(table, columns)
            dump_ddl(snapshot.connection, schema)
        said = log.read_text(errors="replace")[before:]
    # pg_dump asks for sizes to order its own work by; what it prints holds none of them.
    ours = "".join(
        part for part in re.split(r"(?=^\|)", said, flags=re.M) if "|pg_dump|" not in part
    )
    assert ours.count("statement:") + ours.count("execute ") > 30
    assert not FORBIDDEN.search(ours)
    assert not WRITING.search(said)
