"""What `doctor` finds, and that it writes nothing."""

import os

import market
import pytest
from psycopg import conninfo
from sql_files import database_of

from privbench import pipeline
from privbench.errors import GateFailed


def verdicts(found: pipeline.Diagnosis) -> dict[str, str]:
    return {item.what: item.verdict for item in found.findings}


source = database_of(market.SCHEMA)


def test_doctor_of_a_sound_place_finds_nothing_bad(source, make_database, tmp_path):
    found = pipeline.doctor(source, make_database(), market.config(tmp_path / "ledger"))
    found.require_sound()
    assert {"source: rights", "source: pg_dump", "source: identity", "ledger"} <= {
        what for what, verdict in verdicts(found).items() if verdict == "ok"
    }
    assert verdicts(found)["target: contents"] == verdicts(found)["source: pooler"] == "ok"
    assert verdicts(found)["target: role"] == "note", "the tests' role is a superuser"
    assert not (tmp_path / "ledger").exists()


def test_doctor_names_what_fit_and_load_would_refuse(source, tmp_path):
    """A role without rights, a target that is the source, and no declared identity."""
    role = f"nobody_{os.getpid()}"
    market.execute(
        source,
        f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN",
        "REVOKE CREATE ON SCHEMA public FROM public",
    )
    weak = conninfo.make_conninfo(source, user=role)
    config = market.config(tmp_path / "ledger", "")
    found = pipeline.doctor(weak, weak, config)
    market.execute(source, f"DROP ROLE {role}")
    bad = {item.what: item for item in found.findings if item.verdict == "bad"}
    assert bad.keys() == {"source: rights", "target: role", "target: not the source"}
    assert "GRANT SELECT ON" in bad["source: rights"].said
    assert verdicts(found)["source: identity"] == "note", "no name is declared"
    assert verdicts(found)["target: contents"] == "note"
    with pytest.raises(GateFailed, match="source: rights"):
        found.require_sound()


def test_doctor_says_what_becomes_of_what_a_clone_has_otherwise(make_database, tmp_path):
    source = make_database(
        "SELECT lo_create(0); CREATE FOREIGN DATA WRAPPER far; CREATE SERVER far FOREIGN DATA "
        "WRAPPER far; CREATE TABLE a (i int PRIMARY KEY)"
    )
    found = pipeline.doctor(source, None, market.config(tmp_path / "ledger"))
    told = {item.what: item.remedy for item in found.findings if item.verdict == "note"}
    assert "No clone has any" in told["source: large objects"]
    assert "stay behind" in told["source: foreign servers"]


def test_doctor_of_a_server_that_is_not_there_is_a_line(source, tmp_path):
    nowhere = conninfo.make_conninfo(source, dbname="no_such_database")
    ran = market.fail(1, "", "doctor", nowhere, source, "--ledger", tmp_path / "l")
    assert "bad   source " in ran.output
    assert "target: server" in ran.output
    assert "versions" in market.succeed("doctor", "--ledger", tmp_path / "l").output
