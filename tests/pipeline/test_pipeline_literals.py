"""Every value in the DDL is shown to the owner before it travels."""

import re

import market
import psycopg
import pytest
from halting import Watching
from sql_files import database_of, sql_of

from privbench import pipeline
from privbench.config import Config
from privbench.errors import ConfigError, SchemaError
from privbench.pipeline.literals import literals
from privbench.postgres.connect import connect
from privbench.postgres.ddl import dump_ddl
from privbench.postgres.introspect import introspect
from privbench.privacy import Cap

#: One secret in every place where DDL holds a value.
SECRETS = sql_of(__file__, "literals")
SHOWN = re.compile(r"secret\d\d|9001\d\d")
secretive = database_of(SECRETS)


def test_literals_of_every_value_of_the_ddl_are_listed_and_shown_by_check(secretive):
    with connect(secretive) as connection:
        ddl = dump_ddl(connection, introspect(connection))
    travels = set(SHOWN.findall(ddl.pre_data + ddl.post_data))
    assert len(travels) == 23
    said = "\n".join(literals(ddl))
    assert set(SHOWN.findall(said)) == travels
    for dull in ("nextval", "ADD CONSTRAINT t_pkey", "SET "):
        assert dull not in said
    assert not any(line.startswith("CREATE SEQUENCE public.t_id_seq") for line in literals(ddl))
    text = pipeline.check(Config(), secretive).render()
    assert "Values in the schema travel with the clone" in text
    assert set(SHOWN.findall(text)) == travels


def test_fit_after_a_sign_off_takes_no_values_but_those_that_were_reviewed(make_database, tmp_path):
    """The schema changes after it was read and before its rows are: nothing is spent."""
    dsn = make_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, kind text DEFAULT 'first')")
        base = f"[privacy]\nepsilon = 1.0\n[ledger]\npath = '{tmp_path}'"
        said = pipeline.check(Config.loads(base), dsn).render()
        (line,) = re.findall(r'ddl_reviewed = "[0-9a-f]{16}"', said)
        signed = Config.loads(base.replace("[privacy]", f"[privacy]\n{line}"))
        assert line not in pipeline.check(signed, dsn).render()

        change = "ALTER TABLE t ALTER kind SET DEFAULT 'second'"
        late = Watching("extract", lambda: connection.execute(change))
        with pytest.raises(SchemaError, match="changed while it was about to be read"):
            pipeline.fit(dsn, signed, tmp_path / "m", reporter=late)
        spent = pipeline.ledger_show(dsn, None, str(tmp_path)).state["releases"]
        assert [(item["state"], item["epsilon"]) for item in spent] == [("closed", 0.0)]
        for refused in (
            lambda: pipeline.check(signed, dsn),
            lambda: pipeline.fit(dsn, signed, tmp_path / "n"),
        ):
            with pytest.raises(ConfigError, match="ddl_reviewed"):
                refused()
        assert pipeline.ledger_show(dsn, None, str(tmp_path)).state["releases"] == spent


def test_literals_of_policies_name_their_roles(make_database):
    dsn = make_database(
        "CREATE TABLE t (id int PRIMARY KEY, who text);"
        ' CREATE POLICY "case of Smith" ON t TO pg_monitor, pg_read_all_data'
        " USING (who = current_user);"
        " CREATE POLICY open ON t AS RESTRICTIVE FOR DELETE USING (true)"
    )
    with connect(dsn) as reader:
        said = literals(dump_ddl(reader, introspect(reader)))
    assert len(said) == 2
    for part in ("case of Smith", "pg_monitor", "pg_read_all_data", "current_user"):
        assert part.casefold() in said[0].casefold()
    assert "POLICY open ON public.t AS RESTRICTIVE FOR DELETE" in said[1]


def test_a_cap_below_what_is_spent_is_said(make_database, tmp_path):
    dsn = make_database("CREATE TABLE t (id int PRIMARY KEY, kind boolean)")
    config = market.config(tmp_path, "", epsilon=1.0)
    pipeline.fit(dsn, config, tmp_path / "m")
    for cap, full in ((0.5, True), (1.5, False)):
        pipeline.ledger_cap(dsn, None, str(tmp_path), Cap(cap))
        said = pipeline.ledger_show(dsn, None, str(tmp_path)).render()
        assert ("every further release is refused" in said) == full
