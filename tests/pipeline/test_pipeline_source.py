"""The source is read once, by allowed questions only, and not needed afterwards."""

from __future__ import annotations

import re

import market
import psycopg
import pytest
from integrity import whole
from psycopg import conninfo

from privbench import pipeline
from privbench.pipeline.fit import STAGES, begin, finish
from privbench.pipeline.progress import Reporter
from privbench.postgres import embedded

FORBIDDEN = re.compile(
    r"pg_stats|pg_statistic\b|pg_stat_|reltuples|relpages|last_value|n_live_tup|n_distinct"
    r"|information_schema\.|pg_class_size|pg_relation_size|pg_total_relation_size",
    re.I,
)
WRITING = re.compile(r"\b(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|TRUNCATE|ANALYZE|VACUUM)\s", re.I)


@pytest.mark.parametrize("name", market.BY_NAME)
def test_the_source_is_gone_after_extract(server, make_database, tmp_path, name):
    source = market.create(make_database())
    config = market.learner(market.config(tmp_path / "ledger", epsilon=50.0), name)
    draft = begin(source, config, Reporter())
    names = [stage for stage, _ in STAGES]
    assert names.index("extract") < names.index("totals")
    for stage, step in STAGES:
        step(draft)
        if stage == "extract":
            database = conninfo.conninfo_to_dict(source)["dbname"]
            market.execute(server.dsn, f"DROP DATABASE {database} WITH (FORCE)")
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(source)
    model = finish(draft)
    model.save(tmp_path / "m")
    assert draft.session is not None
    assert draft.session.close().epsilon <= 50.0
    target = make_database()
    assert pipeline.load(tmp_path / "m", target).rows["public.customer"] > 20
    whole(target)


@pytest.fixture(scope="module")
def logged():
    """A server that writes down every statement, with its database and program."""
    program = (embedded.embedded_programs() + embedded.machine_programs())[0]
    settings = {**embedded.FAST, "log_statement": "all", "log_line_prefix": "\x01%d|%a|"}
    with embedded.start(program, settings=settings) as server:
        market.execute(server.dsn, "CREATE DATABASE house", "CREATE DATABASE clone")
        market.create(conninfo.make_conninfo(server.dsn, dbname="house"))
        yield server


class Said:
    """What one database was asked while the block ran."""

    def __init__(self, server, database):
        self.path, self.database = server.directory / "log", database

    def __enter__(self):
        self.start = len(self.path.read_bytes())
        return self

    def __exit__(self, *error):
        text = self.path.read_bytes()[self.start :].decode(errors="replace")
        entries = [entry.split("|", 2) for entry in text.split("\x01")[1:]]
        mine = [(app, said) for name, app, said in entries if name == self.database]
        self.dump = [said for app, said in mine if app == "pg_dump"]
        self.own = [said for app, said in mine if app != "pg_dump"]


def test_what_a_clone_asks_of_its_source(logged, tmp_path, monkeypatch):
    """Rows, catalog and DDL once; and the model is not read back from its file."""
    source, target = (conninfo.make_conninfo(logged.dsn, dbname=n) for n in ("house", "clone"))
    monkeypatch.setattr(pipeline.Model, "load", None)
    with Said(logged, "house") as said:
        pipeline.clone(source, target, market.config(tmp_path / "ledger"), replace=True)
    text = "\n".join(said.own)
    assert sum("ISOLATION LEVEL" in line for line in said.dump) == 1
    # The catalog is read once, and once more when the tables are locked.
    assert sum("a.attrelid::bigint AS relation" in line for line in said.own) == 2
    assert len(said.own) > 20
    for table in market.TABLES:
        reads = re.findall(rf'SELECT .* FROM ONLY "public"."{table}"(?! LIMIT 0)', text)
        assert len(reads) == 1, (table, reads)
    assert not FORBIDDEN.search(text), FORBIDDEN.search(text)
    assert not [line for line in said.own if WRITING.search(line)]
    assert re.search(r"REPEATABLE READ|READ ONLY", text)


def test_what_reads_the_catalog_alone(logged, tmp_path):
    source = conninfo.make_conninfo(logged.dsn, dbname="house")
    config = market.config(tmp_path / "ledger")
    with Said(logged, "house") as said:
        pipeline.inspect(source)
        pipeline.check(config, source)
        pipeline.plan(config, source, {"public.customer": 60})
        pipeline.ledger_show(source, None, str(tmp_path / "ledger"))
    text = "\n".join(said.own)
    assert len(said.own) > 10
    # `check` shows the literals of the DDL, which pg_dump prints; it copies no rows for that.
    assert not [line for line in said.dump if re.search(r"\bCOPY\b", line)]
    assert not FORBIDDEN.search(text), FORBIDDEN.search(text)
    assert not WRITING.search(text)
    assert not re.search(r"\bCOPY\b", text)
    tables = "|".join(market.TABLES)
    read = re.compile(rf'(?:FROM|JOIN)\s+(?:ONLY\s+)?(?:"?public"?\.)?"?(?:{tables})\b', re.I)
    assert read.search('SELECT 1 FROM ONLY "public"."customer"')
    assert not read.search(text)
    assert not (tmp_path / "ledger").exists()
