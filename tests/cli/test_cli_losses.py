"""What is lost, --strict and --as-role, as users meet them."""

import re

import market
import pytest
from market import fail, run, succeed
from sql_files import sql_of

#: Once it is filled, its unique index is violated: by the source's rows, and by the clone's.
VIEW = sql_of(__file__, "losses_view")
FOREIGN = sql_of(__file__, "losses_foreign")
LOOK_UP = sql_of(__file__, "losses_look_up")


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
    fail(3, "is a superuser", "load", model, make_database(), "--as-role", "postgres")


def test_what_is_lost_is_said_by_a_plan_in_red_and_by_a_fit(source, config, monkeypatch, tmp_path):
    arguments = ["plan", str(config), source, "--rows", "public.product=7"]
    plain = succeed(*arguments, color=True)
    red = plain.stdout[plain.stdout.index("\x1b[31m") :]
    assert "public.product  about 7 units, useful from" in red
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run(*arguments, color=True).stdout
    enough = run(*arguments[:-1], "public.product=1e9")
    assert "Too few" not in enough.stdout
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
    market.execute(source, "INSERT INTO order_status VALUES ('a', 'open')")
    market.execute(source, "INSERT INTO item SELECT i, 'a' FROM generate_series(1, 1379) i")
    market.execute(source, "ANALYZE")
    assert "1,379" not in succeed("inspect", source, "-o", plain).stdout
    shown = succeed("inspect", source, "--sizes", "-o", path).stdout
    assert re.search(r"CONFIDENTIAL(.*\n)+  item +1,379  each row by itself", shown)
    # No role depends on them.
    text = path.read_text(encoding="utf-8")
    assert text.replace("sizes_shown = true\n", "") == plain.read_text(encoding="utf-8") != text
    folder, fast = tmp_path / "l", ("--synthesizer", "independent")
    words = ("-c", path, "--epsilon", 5, "-o", tmp_path / "m", "--ledger", folder, *fast)
    fitted = succeed("fit", source, *words)
    assert "with estimates of sizes in sight" in fitted.stdout
    (ledger,) = folder.rglob("ledger.sqlite")
    assert b"sizes_shown" in b"".join(file.read_bytes() for file in ledger.parent.iterdir())
