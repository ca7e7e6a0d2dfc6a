"""The command ``demo``: source, clone, workload and report on an embedded PostgreSQL.

The source is a seeded clinic that looks like somebody's production database (``data/demo.sql``).
Its nine tables have what real ones have: skew, correlation inside a table and across tables, NULLs,
enums, CHECKs, free text, a composite key, a junction table, a self-reference, a unique natural key,
a one-to-one key, a generated column, a view and indexes. No row describes a real person.
"""

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path

import psycopg
from faker.providers.person.en_GB import Provider as Names
from psycopg import conninfo, sql

from privbench import report
from privbench.config import Config
from privbench.display import Lines, lines, table
from privbench.errors import TargetError, UsageError
from privbench.files import file_errors
from privbench.pipeline.clone import clone
from privbench.pipeline.inspection import inspect
from privbench.pipeline.progress import Reporter
from privbench.postgres.connect import connect
from privbench.postgres.embedded import any_server
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import ROWS, reading
from privbench.workload import KINDS, generate_from_source
from privbench.workload.formats import write

#: Fewer rows than this leave no room for the look-up tables and a few units.
LEAST_ROWS = 2_000
_DATABASES = ("clinic", "clinic_clone")
_SETTINGS = """
SELECT set_config('demo.rows', %s::text, true), set_config('demo.names', %s, true),
    set_config('timezone', 'UTC', true), set_config('jit', 'off', true), setseed(%s)
"""


def demo(
    out: str | Path,
    *,
    rows: int = 200_000,
    epsilon: float = 3.2,
    synthesizer: str | None = None,
    queries: int = 60,
    reporter: Reporter | None = None,
) -> Lines:
    """Run every step on a fictional clinic; return a text on what was made and where it is."""
    teller = reporter or Reporter()
    folder = Path(out)
    with file_errors(f"cannot use {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    with teller.stage("start PostgreSQL"):
        server = any_server()
    with server:
        source, target = (conninfo.make_conninfo(server.dsn, dbname=name) for name in _DATABASES)
        with connect(server.dsn, autocommit=True) as connection:
            for name in _DATABASES:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with teller.stage("make the source"):
            make_clinic(source, rows)
        config = _config(source, folder, epsilon, synthesizer)
        report_of_clone = clone(
            source, target, config, output=folder / "clinic.privbench", reporter=teller
        )
        with teller.stage("generate a workload"):
            with reading(source, ROWS) as connection:
                plan = replace(KINDS["mixed"].plan, queries=queries, seed=7)
                schema = introspect(connection)
                workload = generate_from_source(connection, "mixed", schema, plan)
            write(workload, folder / "workload.sql")
        with teller.stage("compare"):
            document = report.compare(
                source, target, workload, config, folder, repeats=1, timeout=20.0
            )
    places = (
        ("Report (CONFIDENTIAL):", "report.html"),
        ("Model:", "clinic.privbench"),
        ("Workload:", "workload.sql"),
    )
    written = table([(what, str(folder / file)) for what, file in places], indent=0)
    return lines(report_of_clone.render(), "", report.summary(document), "", *written)


def make_clinic(dsn: str, rows: int = 200_000, seed: int = 7) -> None:
    """Create the clinic in an empty database; seed and PostgreSQL version determine the rows.

    `rows` is the number of rows of all tables together, at least `LEAST_ROWS`.
    """
    if rows < LEAST_ROWS:
        raise UsageError(f"the demonstration needs at least {LEAST_ROWS} rows, not {rows}.")
    names = {
        "women": list(Names.first_names_female),
        "men": list(Names.first_names_male),
        "last": list(Names.last_names),
    }
    script = resources.files("privbench.pipeline").joinpath("data/demo.sql").read_bytes()
    with connect(dsn) as connection:
        try:
            with connection.transaction():
                connection.execute(_SETTINGS, [rows, json.dumps(names), seed % 2**20 / 2**20])
                connection.execute(script)
            connection.autocommit = True
            connection.execute("VACUUM (ANALYZE)")
        except psycopg.Error as error:
            raise TargetError(
                f"the demonstration's source could not be made: {error.diag.message_primary}.",
                remedy="It needs an empty database of its own.",
            ) from error


def _config(source: str, folder: Path, epsilon: float, synthesizer: str | None) -> Config:
    base = Config().with_privacy(epsilon=epsilon).changed("ledger", path=str(folder / "ledger"))
    if synthesizer is not None:
        base = base.changed("synthesizer", name=synthesizer)
    # The clinic's look-up tables hold nothing confidential, so they are declared public.
    return inspect(source, base=base, lookups="public").config
