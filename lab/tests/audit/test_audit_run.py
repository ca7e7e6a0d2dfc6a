"""A whole audit: what it writes, what it leaves behind, and leaks that canaries prove."""

import json
import os
import signal

import broken
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from market import ask, execute, fail, one, succeed
from psycopg import conninfo
from schemas_at_random import databases

from privbench import pipeline
from privbench.config import Config
from privbench.errors import GateFailed, SchemaError, TargetError, UsageError
from privbench.pipeline.progress import Reporter
from privbench_lab.audit import Effort, audit
from privbench_lab.audit.canaries import Planter
from privbench_lab.audit.report import scratch_copy
from privbench_lab.cli.audit import ended_by_signals

QUICK = Effort(canaries=60, fits=1, neighbours=1, inference=False)


def rows(dsn: str) -> list[tuple[object, ...]]:
    return [ask(dsn, f"SELECT count(*), max(id) FROM {name}") for name in ("person", "visit")]


def relations(dsn: str) -> object:
    return one(dsn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")


def test_a_sound_fit_passes_and_nothing_is_left(people, make_database, tmp_path):
    scratch, config, out = make_database(), tmp_path / "c.toml", tmp_path / "out"
    config.write_text(f"{broken.CONFIG}[ledger]\npath = '{tmp_path / 'never'}'\n")
    before = rows(people)
    words = "--canaries 40 --fits 1 --neighbours 2 --no-inference".split()
    ran = succeed("audit", people, "-c", config, "-o", out, "--scratch", scratch, *words)
    assert "with 95 % confidence" in ran.output
    assert rows(people) == before
    assert relations(scratch) == 0
    assert not (tmp_path / "never").exists()
    found = json.loads((out / "audit.json").read_text())
    assert found["confidential"]
    assert found["findings"] == []
    assert found["bound"]["epsilon"] <= found["risk"]["epsilon"] == 1.0
    assert found["bound"]["epsilon"] <= found["bound"]["possible"]
    assert {"public.person.note", "public.visit.cost"} <= set(found["marked"])
    page = (out / "audit.html").read_text()
    assert page.index("CONFIDENTIAL") < page.index("<h1>")
    assert "nothing of it may be published" in page
    assert "similarity" not in page
    assert (out / "audit.json").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_browser_shows_the_page_and_asks_for_nothing(people, make_database, tmp_path, browse):
    audit(
        people, broken.config(tmp_path / "never"), tmp_path, scratch=make_database(), effort=QUICK
    )
    seen = browse(tmp_path / "audit.html")
    assert seen["wrong"] == seen["loaded"] == []
    assert seen["asked"] == ["/"]


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_raw_label_exceeds_the_bound(people, make_database, tmp_path, monkeypatch, neighbours):
    """Texts in the model that only canaries have: the bound passes ε, and the replay names it."""
    broken.leak(monkeypatch, broken.texts)
    config = broken.config(tmp_path / "never", neighbours=neighbours)
    found = audit(people, config, tmp_path, scratch=make_database(), effort=QUICK)
    assert found.bound.epsilon > 1.5 > found.risk.epsilon
    assert found.beside == ["state"]
    assert any("canaries prove" in line for line in found.findings)
    with pytest.raises(GateFailed, match="contradicts the guarantee"):
        found.require_sound()
    assert "The audit contradicts the guarantee" in (tmp_path / "audit.html").read_text()


@pytest.mark.slow
def test_an_exact_size_is_found_in_rows_that_are_read_anew(
    people, make_database, tmp_path, monkeypatch
):
    broken.leak(monkeypatch, broken.sizes)
    config = broken.config(tmp_path / "never")
    found = audit(people, config, tmp_path, scratch=make_database(), effort=QUICK)
    assert found.beside == ["state"]


def test_the_copy_goes_and_what_others_put_beside_it_stays(people, make_database, tmp_path):
    """Also if the process is asked to end, as a machine that shuts down asks it."""
    scratch = make_database()
    with scratch_copy(people, scratch, broken.config(tmp_path / "never"), Reporter()) as copy:
        assert rows(copy) == rows(people)
        with psycopg.connect(scratch, autocommit=True) as connection:
            connection.execute(
                "DELETE FROM visit WHERE id > 20;"
                "UPDATE visit SET person_id = 10, seen_by = id * 6;"
                "ALTER TABLE person ADD mate integer REFERENCES person ON DELETE CASCADE;"
                "UPDATE person SET mate = id + id % 2 * 2 - 1"
            )
            stay, gone = Planter(copy, broken.config(tmp_path / "never")).hold_out(60)
            left = {key for (key,) in connection.execute("SELECT id::text FROM person")}
            assert {row["id"] for row in stay} <= left
            assert gone
            assert not {row["id"] for row in gone} & left
            connection.execute("CREATE TABLE mine (a integer)")
    assert relations(scratch) == 1
    with pytest.raises(SystemExit), ended_by_signals():
        os.kill(os.getpid(), signal.SIGTERM)


BY_TYPES = """[privacy]
epsilon = 1
[tables.person]
own = []
[tables.note]
own = ["of_id"]
[[tables.note.references]]
columns = ["of_id"]
type = "of_type"
types = { Person = { table = "person" } }
"""


def test_a_unit_that_owns_by_types_goes_whole(make_database):
    dsn = make_database(
        "CREATE TABLE person (id int PRIMARY KEY, name text);"
        "CREATE TABLE note (id int PRIMARY KEY, of_type text, of_id int, mark text);"
        "INSERT INTO person SELECT g, 'name ' || g FROM generate_series(1, 40) g;"
        "INSERT INTO note SELECT 2 * g + t, (ARRAY['Person', 'Other'])[1 + t], g, 'mark ' || g"
        " FROM generate_series(1, 40) g, generate_series(0, 1) t"
    )
    _, gone = Planter(dsn, Config.loads(BY_TYPES)).hold_out(20)
    left = "SELECT count(*) FROM note WHERE of_type = "
    assert (one(dsn, f"{left}'Person'"), one(dsn, f"{left}'Other'")) == (40 - len(gone), 40)
    assert gone


def test_bad_input_is_one_line(people, make_database, tmp_path):
    config, scratch = broken.config(tmp_path / "never"), make_database()
    with pytest.raises(TargetError, match="source database itself"):
        audit(people, config, tmp_path, scratch=people, effort=QUICK)
    with pytest.raises(SchemaError, match=r"public\.visit is no root table\. Root tables: public"):
        audit(people, config, tmp_path, scratch=scratch, root="public.visit", effort=QUICK)
    assert relations(scratch) == 0
    execute(scratch, "CREATE TABLE mine (a integer)")
    with pytest.raises(TargetError, match="not empty") as refused:
        audit(people, config, tmp_path, scratch=scratch, effort=QUICK)
    assert "--replace" not in str(refused.value.remedy)
    assert relations(scratch) == 1
    with pytest.raises(UsageError, match="at least one canary"):
        Effort(canaries=0)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        audit(people, config, tmp_path / "file", scratch=make_database(), effort=QUICK)
    nowhere = conninfo.make_conninfo(people, dbname="no_such_database")
    fail(3, "", "audit", nowhere, "-o", tmp_path, "--epsilon", 1)
    fail(2, "", "audit", people, "-o", tmp_path)


@pytest.mark.peers
def test_anonymeter_attacks_held_out_records(people, make_database, tmp_path):
    effort, config = Effort(canaries=10, fits=1, neighbours=1), broken.config(tmp_path / "never")
    few = audit(people, config, tmp_path, scratch=make_database(), effort=effort).inference
    assert few.reason.startswith("of public.person only")
    more = (
        "INSERT INTO person SELECT i, 'city ' || i % 5, i * 7 % 90, 'note'"
        " FROM generate_series(1000, 1400) i"
    )
    source = make_database(statements=broken.SCHEMA + more)
    ran = audit(source, config, tmp_path, scratch=make_database(), effort=effort).inference
    assert ran.reason == ""
    assert ran.control > 100
    assert {"singling out, univariate", "guessing city from the rest"} <= {
        attack.name for attack in ran.attacks
    }
    assert all(0 <= attack.low <= attack.risk <= attack.high <= 1 for attack in ran.attacks)
    assert "not run" not in (tmp_path / "audit.html").read_text().lower()


@pytest.mark.slow
def test_random_schemas_keep_the_bound(make_database, tmp_path):
    """Three random schemas with units that can be planted: sound, and the bound stays under ε."""
    audited = []

    @settings(
        max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(databases())
    def run(ddl):
        if len(audited) == 3:
            return
        source = make_database(statements=ddl)
        config = pipeline.inspect(source, base=Config.loads("[privacy]\nepsilon = 2")).config
        try:
            found = audit(source, config, tmp_path, scratch=make_database(), effort=QUICK)
        except SchemaError:
            return
        audited.append(found)
        assert found.findings == []
        assert found.bound.epsilon <= 2.0
        assert found.replayed.loss <= 2.0

    run()
    assert len(audited) == 3
