"""Every schema of the zoo, cloned with no configuration, and what its clone must keep."""

import re
from dataclasses import dataclass
from pathlib import Path

import faithful
import market
import psycopg
import pytest
from market import ask, execute

from privbench import pipeline

SCHEMAS = Path(__file__).parents[2] / "schemas"
#: Cloned in the default run; the others with the slow tests.
QUICK = ("28_arrays", "43_checks_across")
_HEAD = re.compile(r"^-- (needs|extension|requires|canaries): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Animal:
    """A schema with rows, and what the head of its file says.

    Attributes:
        text: The SQL.
        head: Least major version of the server, extensions that it must offer, an expression that
            it must be able to compute, and texts that the rows hold and the clone may not.
    """

    text: str
    head: dict[str, str]

    @property
    def canaries(self) -> list[str]:
        return [item for item in self.head.get("canaries", "").split(" | ") if item]


def animal(name: str, folder: str = "zoo") -> Animal:
    text = (SCHEMAS / folder / f"{name}.sql").read_text(encoding="utf-8")
    return Animal(text, dict(_HEAD.findall(text)))


def skip_unless_at_home(head: dict[str, str], server) -> None:
    """Skip a schema that this server cannot have at all."""
    if server.major < int(head.get("needs", 0)):
        pytest.skip(f"PostgreSQL {server.major} has no such feature")
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        offered = connection.execute("SELECT name FROM pg_available_extensions").fetchall()
        if missing := {*head.get("extension", "").split()} - {name for (name,) in offered}:
            pytest.skip(f"the server lacks the extensions {sorted(missing)}")
        try:
            connection.execute(f"SELECT {head.get('requires', 1)}")
        except psycopg.Error as error:
            pytest.skip(f"the server was built without it: {error.diag.message_primary}")


@pytest.fixture
def scratch(newest_server, make_database_on):
    """``scratch()``: DSN of an empty database."""
    return lambda: make_database_on(newest_server)


def names(folder: str, quick: tuple[str, ...] = ()) -> list:
    found = sorted(path.stem for path in (SCHEMAS / folder).glob("*.sql"))
    return [pytest.param(n, marks=() if n in quick else (pytest.mark.slow,)) for n in found]


@pytest.mark.parametrize("name", names("zoo", QUICK))
@pytest.mark.timeout(1800)
def test_clone_is_faithful(newest_server, scratch, tmp_path, name):
    found = animal(name)
    skip_unless_at_home(found.head, newest_server)
    before, after = clone_whole(found, scratch, tmp_path)
    assert faithful.leaked(before, found.canaries) == found.canaries
    assert faithful.leaked(after, found.canaries) == []


@pytest.mark.parametrize("name", names("samples"))
@pytest.mark.timeout(1800)
def test_clone_of_a_sample_is_faithful(newest_server, scratch, tmp_path, name):
    """Texts that most units share may be released as labels, so canaries may be among them."""
    found = animal(name, "samples")
    skip_unless_at_home(found.head, newest_server)
    clone_whole(found, scratch, tmp_path)


def clone_whole(found: Animal, scratch, folder: Path) -> tuple[str, str]:
    """Clone a schema with no configuration, hold the clone against all that it must keep; dumps."""
    source, target = scratch(), scratch()
    execute(source, found.text)
    base = market.config(folder, "", epsilon=3.0)
    config = pipeline.inspect(source, base=base).config
    pipeline.clone(source, target, config)

    before, after = faithful.dump(source), faithful.dump(target)
    if before.schema != after.schema:
        # What pg_dump itself does not print twice in the same words.
        assert faithful.restored(before, scratch()).schema == after.schema
    faithful.require_sound(target)
    assert faithful.unvalidated(target) == faithful.unvalidated(source)
    assert faithful.circles(target) == []
    sizes = [faithful.counts(source), faithful.counts(target)]
    assert faithful.unlikely(*sizes, faithful.owning_units(source, config)) == []
    return before.text, after.text


@pytest.mark.slow
def test_triggers_do_not_fire_during_a_load(scratch, tmp_path):
    source, target = scratch(), scratch()
    execute(source, animal("67_functions_and_triggers").text)
    base = market.config(tmp_path, "", epsilon=3.0)
    pipeline.clone(source, target, pipeline.inspect(source, base=base).config)
    assert ask(target, "SELECT count(*) FROM audit WHERE what = 'INSERT'") == [(0,)]
    assert ("deny", "A") in ask(target, "SELECT tgname, tgenabled FROM pg_trigger")
