"""Every schema of the zoo, cloned with no configuration, and what its clone must keep."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import faithful
import psycopg
import pytest
from market import ask, execute

from privbench import pipeline
from privbench.config import Config

SCHEMAS = Path(__file__).parents[2] / "schemas"
FOLDER = SCHEMAS / "zoo"
#: Cloned in the default run; the others with the slow tests.
QUICK = ("28_arrays", "43_checks_across")
_HEAD = re.compile(r"^-- (needs|extension|requires|canaries): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Animal:
    """A file of the zoo and what its head says.

    Attributes:
        text: The SQL.
        needs: Least major version of the server.
        extensions: What the server must offer.
        requires: An expression that the server must be able to compute, or None.
        canaries: Texts that the source's rows hold and the clone may not.
    """

    text: str
    needs: int
    extensions: tuple[str, ...]
    requires: str | None
    canaries: tuple[str, ...]


def animal(name: str, folder: Path = FOLDER) -> Animal:
    text = (folder / f"{name}.sql").read_text(encoding="utf-8")
    head = dict(_HEAD.findall(text))
    return Animal(
        text,
        int(head.get("needs", 0)),
        tuple(head.get("extension", "").split()),
        head.get("requires"),
        tuple(item for item in head.get("canaries", "").split(" | ") if item),
    )


def skip_unless_at_home(found: Animal, server) -> None:
    """Skip a schema that this server cannot have at all."""
    if server.major < found.needs:
        pytest.skip(f"PostgreSQL {server.major} has no such feature")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        offered = connection.execute("SELECT name FROM pg_available_extensions").fetchall()
        missing = set(found.extensions) - {name for (name,) in offered}
        if missing:
            pytest.skip(f"the server lacks the extensions {sorted(missing)}")
        if found.requires is not None:
            try:
                connection.execute(f"SELECT {found.requires}")
            except psycopg.Error as error:
                pytest.skip(f"the server was built without it: {error.diag.message_primary}")


@pytest.fixture
def scratch(newest_server, make_database_on):
    """``scratch()``: DSN of an empty database."""
    return lambda: make_database_on(newest_server)


NAMES = sorted(path.stem for path in FOLDER.glob("*.sql"))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else (pytest.mark.slow,)) for n in NAMES]
)
@pytest.mark.timeout(1800)
def test_clone_is_faithful(newest_server, scratch, tmp_path, name):
    clone_whole(animal(name), newest_server, scratch, tmp_path)


SAMPLES = sorted(path.stem for path in (SCHEMAS / "samples").glob("*.sql"))


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.timeout(1800)
def test_clone_of_a_sample_is_faithful(newest_server, scratch, tmp_path, name):
    """Texts that most units share may be released as labels, so canaries may be among them."""
    found = replace(animal(name, SCHEMAS / "samples"), canaries=())
    clone_whole(found, newest_server, scratch, tmp_path)


def clone_whole(found: Animal, newest_server, scratch, tmp_path) -> None:
    """Clone a schema with no configuration and hold the clone against all that it must keep.

    Sizes are asked of tables that 30 units or more own (`faithful.unlikely`): rows of fewer are
    hidden on purpose.
    """
    skip_unless_at_home(found, newest_server)
    source, target = scratch(), scratch()
    execute(source, found.text)
    base = Config.loads(f"[privacy]\nepsilon = 3\n[ledger]\npath = '{tmp_path}'")
    config = pipeline.inspect(source, base=base).config
    pipeline.clone(source, target, config)

    before, after = faithful.dump(source), faithful.dump(target)
    if before.schema != after.schema:
        # What pg_dump itself does not print twice in the same words.
        assert faithful.restored(before, scratch()).schema == after.schema
    assert faithful.leaked(before.text, found.canaries) == list(found.canaries)
    assert faithful.leaked(after.text, found.canaries) == []
    assert faithful.unvalidated(target) == faithful.unvalidated(source)
    assert faithful.broken_constraints(target) == []
    assert faithful.circles(target) == []
    assert faithful.unanalysed(target) == []
    assert faithful.stale_sequences(target) == []
    sizes = [faithful.counts(source), faithful.counts(target)]
    assert faithful.unlikely(*sizes, faithful.owning_units(source, config)) == []


@pytest.mark.slow
def test_triggers_do_not_fire_during_a_load(scratch, tmp_path):
    source, target = scratch(), scratch()
    execute(source, animal("67_functions_and_triggers").text)
    base = Config.loads(f"[privacy]\nepsilon = 3\n[ledger]\npath = '{tmp_path}'")
    pipeline.clone(source, target, pipeline.inspect(source, base=base).config)
    assert ask(target, "SELECT count(*) FROM audit WHERE what = 'INSERT'") == [(0,)]
    assert ("deny", "A") in ask(target, "SELECT tgname, tgenabled FROM pg_trigger")
