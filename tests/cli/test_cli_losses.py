"""What is lost, --strict and --as-role, as users meet them."""

import re
import sys
import tomllib
from contextlib import nullcontext

import click
import market
import pytest
from market import fail, run, succeed
from sql_files import sql_of

from privbench.cli.console import LogReporter
from privbench.config import Config
from privbench.errors import PrivacyRefusal

#: Once it is filled, its unique index is violated: by the source's rows, and by the clone's.
VIEW = sql_of(__file__, "losses_view")
FOREIGN = sql_of(__file__, "losses_foreign")
LOOK_UP = sql_of(__file__, "losses_look_up")
FAST = ("--synthesizer", "independent")


@pytest.fixture(scope="module")
def source(make_database):
    dsn = market.create(make_database(), 40)
    market.execute(dsn, VIEW)
    return dsn


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return market.config_file(tmp_path_factory.mktemp("config"), market.INDEPENDENT)


@pytest.fixture(scope="module")
def model(source, config, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    succeed("fit", source, "-c", config, "--epsilon", "50", "-o", path)
    return path


def test_what_a_clone_lacks_is_said_and_strict_makes_it_an_exit_code(model, make_database):
    line = "the materialised view public.tiers stays without data: a unique constraint is violated"
    assert line in succeed("load", model, make_database()).stdout
    target = make_database()
    assert line in fail(1, "as --strict demands", "load", model, target, "--strict").stdout
    # The clone is there all the same.
    assert market.one(target, "SELECT count(*) > 0 FROM customer") is True


def test_a_strict_clone_without_a_foreign_table_costs_nothing(make_database, config, tmp_path):
    source, target = market.create(make_database(), 20), make_database()
    market.execute(source, FOREIGN)
    arguments = (source, target, "-c", config, "--yes", "--ledger", tmp_path / "ledger")
    said = "stays behind: foreign table public.elsewhere"
    fail(1, said, "clone", *arguments, "--strict")
    assert not list(tmp_path.rglob("ledger.sqlite")), "nothing is spent"
    assert said in succeed("clone", *arguments).stdout
    assert list(tmp_path.rglob("ledger.sqlite"))


def test_a_load_as_a_weak_role(model, make_database):
    target = make_database()
    role = market.weak_owner(target)
    succeed("load", model, target, "--as-role", role)
    owner = "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 2200"
    assert market.ask(target, owner) == [(role,)]
    refused = fail(3, "is a superuser", "load", model, make_database(), "--as-role", "postgres")
    assert "sample" not in refused.stderr


def test_what_is_lost_is_said_by_a_plan_in_red_and_by_a_fit(source, config, monkeypatch, tmp_path):
    words = ["plan", config, source, "--rows"]
    plain = succeed(*words, "public.product=7", color=True).stdout
    assert "public.product  about 7 units, useful from" in plain[plain.index("\x1b[31m") :]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(*words, "public.product=7", color=True).stdout
    assert "Too few" not in run(*words, "public.product=1e9").stdout
    # A fit says it too.
    fitted = succeed("fit", source, "-c", config, "--epsilon", "1", "-o", tmp_path / "m")
    assert "Too few units to be learned, or lost, and the line of config" in fitted.stdout
    assert "public.product" in fitted.stdout
    assert "Too few units" in fitted.stderr


def test_a_proposal_says_which_tables_are_look_ups_and_opens_them(make_database, tmp_path):
    source, path = make_database(LOOK_UP), tmp_path / "c.toml"
    why = "order_status: listed name +3"
    plain = run("inspect", source, "-o", path)
    assert f"{why}" in plain.stdout
    assert "PRIVATE: labels will" in plain.stdout
    assert 'role = "public"' not in path.read_text(encoding="utf-8")
    opened = succeed("inspect", source, "--lookups", "public", "-o", path)
    assert why in opened.stdout
    assert "PRIVATE: labels" not in opened.stdout
    assert "+2; PUBLIC\n" in opened.stdout or "+1; PUBLIC\n" in opened.stdout
    assert 'role = "public"' in path.read_text(encoding="utf-8")


def test_sizes_are_shown_on_demand_and_it_is_written_down_that_they_were(make_database, tmp_path):
    source, plain, path = make_database(LOOK_UP), tmp_path / "p.toml", tmp_path / "c.toml"
    market.execute(
        source,
        "INSERT INTO order_status VALUES ('a', 'open')",
        "INSERT INTO item SELECT i, 'a' FROM generate_series(1, 1379) i",
        "CREATE TABLE visit (day int NOT NULL) PARTITION BY RANGE (day)",
        "CREATE TABLE early_visit PARTITION OF visit FOR VALUES FROM (0) TO (1000)",
        "INSERT INTO visit SELECT i FROM generate_series(1, 421) i",
        "ANALYZE",
    )
    assert "1,379" not in succeed("inspect", source, "-o", plain).stdout
    shown = succeed("inspect", source, "--sizes", "-o", path).stdout
    assert re.search(r"CONFIDENTIAL(.*\n)+  item +1,379  each row by itself", shown)
    assert re.search(r"  visit +421  ", shown)
    # No role depends on them.
    text = path.read_text(encoding="utf-8")
    assert text.replace("sizes_shown = true\n", "") == plain.read_text(encoding="utf-8") != text
    folder = tmp_path / "l"
    words = ("-c", path, "--epsilon", 5, "-o", tmp_path / "m", "--ledger", folder, *FAST)
    fitted = succeed("fit", source, *words)
    assert "with estimates of sizes in sight" in fitted.stdout
    (ledger,) = folder.rglob("ledger.sqlite")
    assert b"sizes_shown" in b"".join(file.read_bytes() for file in ledger.parent.iterdir())


@pytest.fixture(scope="module")
def coarse(make_database, tmp_path_factory):
    """A database whose things own what could be units, its proposal, and options of a fit."""
    source, folder = make_database(sql_of(__file__, "finer")), tmp_path_factory.mktemp("coarse")
    shown = succeed("inspect", source, "-o", folder / "c.toml").stdout
    text = (folder / "c.toml").read_text(encoding="utf-8")
    # Under pure accounting a release that is given up costs what it has spent.
    text = text.replace("[privacy]", '[privacy]\naccounting = "pure"')
    (folder / "c.toml").write_text(text, encoding="utf-8")
    return folder, shown, ("fit", source, "--epsilon", 20, *FAST, "--ledger", folder / "ledger")


def test_finer_units_stop_a_strict_fit_and_are_paid_for_twice(coarse):
    """Stop, paste, fit again: under a cap of what was asked for and twice the totals."""
    folder, _, fit = coarse
    words = (*fit, "-c", folder / "c.toml", "-o", folder / "m", "--strict")
    stopped = fail(4, "finer units would make tables useful", *words)
    block = stopped.stderr[stopped.stderr.index("[tables") :].split("To give it up")[0]
    pasted = tomllib.loads(block)
    assert pasted == {"tables": {'public."rea.d""ing"': {"own": []}}}
    assert not (folder / "m").exists()
    # As it is it would stop again.
    assert "--strict" not in re.search(r"To go on: .*", stopped.stderr)[0]
    up = re.search(r"To give it up: privbench (ledger abandon \S+)", stopped.stderr)
    succeed(*up[1].split(), "--ledger", folder / "ledger")
    config = Config.load(folder / "c.toml").model_dump(exclude_unset=True)
    config["tables"] |= pasted["tables"]
    for cap, works in ((21.9, False), (22.0001, True)):
        finer = Config.model_validate({**config, "ledger": {"cap_epsilon": cap}})
        (folder / "finer.toml").write_text(finer.dumps(), encoding="utf-8")
        words = (*fit, "-c", folder / "finer.toml", "-o", folder / "m", "--strict")
        if works:
            assert "Finer units" not in succeed(*words).stdout
        else:
            fail(4, "cap", *words)


def test_a_fit_goes_on_with_units_that_are_agreed_to(coarse, tmp_path):
    """Its first line is red, and every line of advice is TOML, whatever the names are."""
    folder, proposal, fit = coarse
    words = (*fit, "-c", folder / "c.toml", "-o", tmp_path / "m", "--yes", "--identity", "other")
    shown = succeed(*words, color=True).stdout
    assert shown.startswith("\x1b[31mFiner units")
    advice = [line for line in shown.splitlines() if re.search(r"  (tables|privacy)\.", line)]
    advice += [line for line in proposal.splitlines() if ": tables." in line]
    lines = [re.search(r"(?:tables|privacy)\..*", line)[0] for line in advice]
    assert len(lines) > 4
    for line in lines:
        changed = Config.loads(re.sub(r'"…"', "1", line) if "min" in line else line)
        assert changed != Config(), line
    named = {name for line in lines for name in tomllib.loads(line).get("tables", ())}
    assert {'public."ma.chi""ne"', 'public."app.set""tings"'} <= named
    # What owns rows cannot be public.
    assert not any("chi" in line and "role" in line for line in lines)
    assert any("secrets" in line for line in lines)


@pytest.mark.parametrize(
    ("strict", "agreed", "answer", "goes_on"),
    [(False, False, False, False), (False, False, True, True), (False, True, False, True),
     (True, True, True, False)],
)  # fmt: skip
def test_finer_units_are_asked_about_at_a_terminal(strict, agreed, answer, goes_on, monkeypatch):
    reporter, error = LogReporter(), PrivacyRefusal("finer units")
    reporter.strict, reporter.agreed = strict, agreed
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda _: True})())
    monkeypatch.setattr(click, "confirm", lambda *_, **__: answer)
    with nullcontext() if goes_on else pytest.raises(PrivacyRefusal, match="finer units"):
        reporter.offer(error, "own = []")
        assert reporter.offered == "own = []"
