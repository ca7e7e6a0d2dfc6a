"""kill -9 in the middle of a load and of a fit, and two fits at once against one cap."""

from itertools import product
from pathlib import Path

import market
import pytest
from halting import fit_at_once, kill_at
from integrity import whole
from sql_files import database_of, sql_of

from privbench import pipeline
from privbench.errors import LedgerError, ModelError
from privbench.pipeline import Model
from privbench.privacy.release import Release
from privbench.privacy.store import transaction


def config_of(ledger):
    toml = f"{market.CONFIG.split('[tables')[0]}\n{market.INDEPENDENT}"
    return market.config(ledger, f'{toml}[tables."public.visit"]\nown = ["guest"]\n')


@pytest.fixture
def config(tmp_path):
    return config_of(tmp_path / "ledger")


guests = database_of(sql_of(__file__, "kill_guests"))


@pytest.fixture(scope="module")
def unbroken(guests, tmp_path_factory):
    """ε of a fit that nobody kills."""
    folder = tmp_path_factory.mktemp("unbroken")
    return pipeline.fit(guests, config_of(folder / "ledger"), folder / "m").promise.epsilon


def ledger(config):
    return pipeline.ledger_show("", "market", config.ledger.path).state


def objects(dsn: str) -> list[tuple[object, ...]]:
    """Everything in schema public, once the killed session is gone."""
    market.execute(dsn, sql_of(__file__, "kill_ended"))
    return market.ask(
        dsn,
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace",
    )


@pytest.mark.parametrize(
    ("moment", "replace"),
    market.some_slow(
        product(["load public.line", "indexes and constraints", "analyze"], [False, True]),
        [("indexes and constraints", False), ("load public.line", True)],
    ),
)
def test_load_that_is_killed_leaves_the_target_as_it_was(make_database, model, moment, replace):
    """Empty, or with the rows that were to be replaced."""
    target = make_database()
    if replace:
        pipeline.load(model, target)
        before = market.counts(target)
    kill_at(moment, pipeline.load, model, target, replace=replace)
    if replace:
        assert market.counts(target) == before
    else:
        assert objects(target) == []
        pipeline.load(model, target)
        assert objects(target)
    whole(target)


def batches(config):
    """The release's entries: one of events, then one of their results, batch by batch."""
    (file,) = Path(config.ledger.path).rglob("ledger.sqlite")
    (shown,) = ledger(config)["releases"]
    with transaction(file.parent) as book:
        return book.read(shown["release"])


@pytest.mark.parametrize(
    ("moment", "loses"),
    market.some_slow(
        [("record:1", True), ("store:4", False), ("record:5", True), ("learn", False)],
        [("store:4", False), ("record:5", True)],
    ),
)
def test_fit_that_is_killed_is_resumed(guests, config, unbroken, tmp_path, moment, loses):
    """What was killed between event and result is spent once more, what has a result is kept."""
    output = tmp_path / "m"
    kill_at(moment, pipeline.fit, guests, config, output)
    assert not output.exists()
    before = batches(config)
    last = before[-1]
    lost = len(last["events"]) if last["type"] == "events" else 0
    assert (lost > 0) == loses
    (killed,) = ledger(config)["releases"]
    assert killed["state"] == "open"
    assert killed["epsilon"] == 5.0
    changed = config.with_privacy(delta=1e-7)
    nobody = "00000000-0000-0000-0000-000000000000"
    for other, name, said in (
        (changed, killed["release"], "was opened for another fit"),
        (config, nobody, "has no release"),
    ):
        with pytest.raises(LedgerError, match=said):
            pipeline.fit(guests, other, output, resume=name)
    assert ledger(config)["releases"] == [killed]
    assert not output.exists()
    promise = pipeline.fit(guests, config, output, resume=killed["release"]).promise
    (finished,) = ledger(config)["releases"]
    assert finished["release"] == killed["release"]
    assert finished["state"] == "closed"
    assert promise.epsilon <= finished["epsilon"] <= promise.epsilon * (1 + 1e-9)
    assert promise.epsilon > 1.005 * unbroken or not loses
    assert batches(config)[: len(before)] == before
    (total,) = ledger(config)["definitions"]
    assert total["epsilon"] == finished["epsilon"]
    assert finished["events"] == len(Model.load(output).events)
    with pytest.raises(LedgerError, match="is closed"):
        pipeline.fit(guests, config, output, resume=killed["release"])


#: One unit goes, then all, then others come.
OTHERS = [
    "DELETE FROM event WHERE owner_id = 17; DELETE FROM owner WHERE id = 17",
    "TRUNCATE owner, event",
    "INSERT INTO owner SELECT -i, '-infinity' FROM generate_series(1, 50) i;"
    """INSERT INTO event SELECT i, -1, '{"other": [{"a": 1e9999}, "x"]}', 'odd' || i,"""
    " 'infinity', '1900-01-01' FROM generate_series(-300, 300) i",
]


@pytest.mark.slow
def test_fit_whose_answers_are_known_makes_the_same_model_of_any_rows(
    make_database, tmp_path, monkeypatch
):
    owned = "[tables.owner]\nown = []\n[tables.event]\nown = ['owner_id']\n"
    toml = market.CONFIG.split("[tables")[0] + owned
    config = market.config(tmp_path / "ledger", toml)
    source, made, save = make_database(sql_of(__file__, "kill_events")), list[bytes](), Model.save

    def stop(model, output):
        save(model, output)
        made.append(Path(output).read_bytes())
        raise KeyboardInterrupt

    monkeypatch.setattr(Model, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        pipeline.fit(source, config, tmp_path / "m")
    (release,) = ledger(config)["releases"]
    for statement in OTHERS:
        market.execute(source, statement)
        with pytest.raises(KeyboardInterrupt):
            pipeline.fit(source, config, tmp_path / "m", resume=release["release"])
    assert made[1:] == made[:1] * len(OTHERS)
    asked = " ".join(event.label for event in Model.load(tmp_path / "m").events)
    assert all(word in asked for word in ("paths", "kind", "rule", "serial", "follows"))
    other = market.config(tmp_path / "ledger", f"{toml}columns.document.paths = ['other']\n")
    with pytest.raises(ModelError, match="has this column otherwise"):
        pipeline.fit(source, other, tmp_path / "n", since=tmp_path / "m")


def test_fit_without_a_writable_ledger_says_so(guests, config, tmp_path, monkeypatch):
    record = Release.record

    def blocked(release, events):
        (file,) = Path(config.ledger.path).rglob("ledger.sqlite")
        file.rename(tmp_path / "away")
        file.mkdir()
        record(release, events)

    monkeypatch.setattr(Release, "record", blocked)
    with pytest.raises(LedgerError, match="cannot use the ledger file") as raised:
        pipeline.fit(guests, config, tmp_path / "m")
    assert "privbench ledger abandon" in raised.value.__notes__[0]


def test_fit_twice_at_once_under_a_cap_for_one_refuses_one(guests, config, tmp_path):
    config = config.changed("ledger", cap_epsilon=7.5)
    found = fit_at_once(*((guests, config, tmp_path / name) for name in ("a", "b")))
    done, refusal = sorted(found)
    assert done == ""
    assert "over the cap of 7.5" in refusal
    assert sum((tmp_path / name).exists() for name in ("a", "b")) == 1
    (release,) = ledger(config)["releases"]
    assert release["state"] == "closed"
    assert release["epsilon"] <= 5.0
