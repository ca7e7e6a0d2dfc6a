"""Bad input through the command line: exit code, a message that helps, and no budget spent."""

import re
import shutil

import market
import pytest
from market import fail, run, succeed
from psycopg import conninfo
from sql_files import cases

from privbench import pipeline

NOWHERE = "host=/nonexistent-directory dbname=x connect_timeout=2 user=me password=hunter2secret"
QUICK = f"{market.CONFIG}\n{market.INDEPENDENT}"


class Desk:
    """One source, one config file, one ledger directory, and the command line."""

    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        self.ledger, self.output = folder / "ledger", folder / "m.privbench"
        self.write()

    def write(self, *more, base=QUICK):
        self.config = market.config_file(self.folder, *more, toml=base)

    def fit(self, *more, source=None):
        return run("fit", source or self.source, "-c", self.config, "-o", self.output, *more)

    def ledgers(self):
        """All that the ledger holds."""
        return [path.read_bytes() for path in sorted(self.folder.rglob("ledger.sqlite"))]

    def untouched(self):
        """No release was opened, no model written."""
        return not self.ledgers() and not self.output.exists()


@pytest.fixture(scope="module")
def source(make_database):
    return market.create(make_database(), 20)


@pytest.fixture(scope="module")
def target(make_database):
    """An empty database, into which nothing is loaded."""
    return make_database()


@pytest.fixture
def desk(source, tmp_path):
    return Desk(source, tmp_path)


@pytest.fixture(scope="module")
def fitted(source, tmp_path_factory):
    """A desk at which a model of ε = 5 was fitted."""
    desk = Desk(source, tmp_path_factory.mktemp("fitted"))
    result = desk.fit()
    assert result.exit_code == 0, result.stderr
    assert f"\n{desk.output}: ε = " in f"\n{result.stdout}"
    return desk


@pytest.fixture
def spent(desk, fitted):
    """A desk of the test's own, with that model and that ledger."""
    shutil.copytree(fitted.ledger, desk.ledger)
    shutil.copy(fitted.output, desk.output)
    return desk


def refused(result, code, *needles):
    """The exit code, and one message on stderr that holds all of these."""
    text = re.sub(r"\s+", " ", result.stderr)
    assert result.exit_code == code, (result.exit_code, text, result.exception)
    assert result.stdout == ""
    assert "Traceback" not in text
    assert "hunter2secret" not in text
    for needle in needles:
        assert re.search(needle, text), (needle, text)


@pytest.mark.parametrize(("said", "line"), cases(__file__, "refused_commands.txt"))
def test_what_is_refused_spends_nothing_and_shows_no_password(desk, target, fitted, said, line):
    code, _, words = said.partition(": ")
    parts = conninfo.conninfo_to_dict(desk.source)
    uri = f"postgresql:///{parts['dbname']}?host={parts['host']}&user={parts['user']}"
    (desk.folder / "binary").write_bytes(b"\xff\xfe\x00")
    given = {**vars(desk), "nowhere": NOWHERE, "uri": uri, "target": target, "model": fitted.output}
    refused(run(*(word.format(**given) for word in line.split())), int(code), *words.split("; "))
    assert desk.untouched()
    assert not (desk.folder / "w").exists()
    assert market.one(desk.source, "SELECT count(*) FROM customer") == 20


def test_a_proposal_that_cannot_be_written_is_shown(desk):
    result = fail(2, "c.toml", "inspect", desk.source, "-o", desk.folder / "none" / "c.toml")
    assert re.search(r"cannot write .*c\.toml", result.stderr)
    assert "Privacy unit" in result.stdout


@pytest.fixture
def reader(source):
    """A role that may read every table but one."""
    market.execute(
        source,
        "DROP ROLE IF EXISTS market_reader; CREATE ROLE market_reader LOGIN",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO market_reader",
        "REVOKE SELECT ON line FROM market_reader",
    )
    yield conninfo.make_conninfo(source, user="market_reader")
    market.execute(source, "DROP OWNED BY market_reader; DROP ROLE market_reader")


def test_a_role_that_may_not_read_all_rows_is_refused(desk, reader, source):
    for words in (
        ("fit", reader, "-c", desk.config, "-o", desk.output),
        ("check", desk.config, reader),
        ("plan", desk.config, reader),
    ):
        refused(run(*words), 3, 'GRANT SELECT ON "public"."line" TO "market_reader"')
    market.execute(source, "GRANT SELECT ON line TO market_reader")
    market.execute(source, "ALTER TABLE product ENABLE ROW LEVEL SECURITY")
    try:
        result = desk.fit(source=reader)
    finally:
        market.execute(source, "ALTER TABLE product DISABLE ROW LEVEL SECURITY")
    refused(result, 3, "row-level security", "public.product", "BYPASSRLS")
    assert desk.untouched()


def test_targets_that_may_not_be_replaced_or_written_are_refused(spent, make_database):
    """One with tables of others, the source of a model, and one where the role may not create."""
    before = spent.ledgers()
    words = ("clone", spent.source, "-c", spent.config, "--epsilon", "1", "--")
    mine = make_database("CREATE TABLE mine AS SELECT 1 AS i")
    refused(run(*words, mine), 3, "not empty", "mine", "--replace")
    assert market.one(mine, "SELECT i FROM mine") == 1
    load = ("load", spent.output, spent.source, "--replace", "--ledger", spent.ledger)
    refused(run(*load), 3, "may be the source of a model", re.escape(str(spent.ledger)), "anew")
    assert market.one(spent.source, "SELECT count(*) FROM customer") == 20
    closed = make_database(
        "DROP ROLE IF EXISTS market_guest; CREATE ROLE market_guest LOGIN;"
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
    )
    guest = conninfo.make_conninfo(closed, user="market_guest")
    for refusal in (run("load", spent.output, guest), run(*words, guest)):
        refused(refusal, 3, "permission denied")
        assert "sample" not in refusal.stderr
    assert spent.ledgers() == before
    market.execute(closed, "DROP ROLE market_guest")


def test_a_ledger_that_cannot_be_written_is_refused_before_anything_is_asked(source, tmp_path):
    (tmp_path / "file").write_text("")
    words = ("--epsilon", 1, "--ledger", tmp_path / "file", "-o", tmp_path / "m")
    result = run("fit", source, *words)
    refused(result, 4, "Not a directory", "ledger. path a directory")
    assert "Forest" not in result.stderr


@pytest.mark.parametrize(("said", "text"), cases(__file__, "refused_configs.txt"))
def test_a_config_that_does_not_fit_spends_nothing(desk, said, text):
    desk.write(base=market.changed_config(text))
    refused(desk.fit(), 2, *said.split("; "))
    assert desk.untouched()


TITLE = '[tables."public.product".columns.title]\nkind = "categories"'


@pytest.mark.parametrize(
    ("base", "options", "said"),
    [
        (market.CONFIG.replace("epsilon = 5.0", ""), (), ("no ε is given", "--epsilon")),
        (
            f"{market.CONFIG}\n{TITLE}",
            ("--delta", "0"),
            (r"public\.product\.title", "(?i)delta|δ", "values|list"),
        ),
    ],
    ids=["no epsilon", "categories without a list and without delta"],
)
def test_a_budget_that_does_not_fit_is_refused_to_a_plan_too(desk, base, options, said):
    desk.write(base=base)
    refused(desk.fit(*options), 2, *said)
    refused(run("plan", desk.config, desk.source, *options), 2, *said)
    assert desk.untouched()


def test_a_proposal_is_accepted_by_yes_and_not_off_a_terminal(desk):
    words = ("fit", desk.source, "-o", desk.output, "--epsilon", "5", "--ledger", desk.ledger)
    result = run(*words)
    refused(result, 2, "proposed but not accepted", "--yes", "privbench inspect", "public.purchase")
    assert desk.untouched()
    result = succeed(*words, "--yes")
    assert "Roles were proposed by the tool and accepted." in result.stdout
    assert pipeline.Model.load(desk.output).promise.roles == "proposed"


def test_a_model_is_not_replaced_unasked(desk, reader, source):
    """By force it is, and to read the tables is right enough for that."""
    desk.output.write_bytes(b"mine")
    refused(desk.fit(), 2, "is there already", "--force")
    assert desk.output.read_bytes() == b"mine"
    assert not desk.ledgers()
    market.execute(source, "GRANT SELECT ON line TO market_reader")
    result = desk.fit("--force", source=reader)
    assert result.exit_code == 0, result.stderr
    assert desk.output.read_bytes() != b"mine"


def test_fit_over_a_cap_or_of_no_release_is_refused(desk):
    refused(desk.fit("--max-epsilon-per-month", "3"), 4, "would be 5, over the cap of 3")
    desk.write("max_epsilon_per_month = 3")
    refused(desk.fit("--max-epsilon-per-month", "6"), 4, "would be 5, over the cap of 3")
    desk.write()
    mine = ["--identity", "market", "--ledger", desk.ledger]
    run("ledger", "cap", *mine, "--epsilon", "9", "--max-epsilon-per-month", "2.5")
    result = succeed("ledger", "cap", *mine, "--epsilon", "4")
    assert "No longer capped: ε a month (the cap was 2.5)." in result.stdout
    every = succeed("ledger", "show", "--ledger", desk.ledger).stdout.splitlines()
    assert every[0].startswith(f"Ledgers in {desk.ledger} (")
    assert re.fullmatch(rf"  market  ε 0 spent  cap 4  {desk.ledger}/\w+", every[1])
    told = run("ledger", "show", "-c", desk.config)
    assert told.stdout == run("ledger", "show", *mine).stdout
    assert "Cap: ε 4" in result.stdout
    refused(desk.fit(), 4, "over the cap of 4")
    succeed("ledger", "cap", *mine, "--epsilon", "100")
    refused(desk.fit("--seed", "1"), 4, "seeded noise")
    refused(desk.fit("--resume", "nonsense"), 4, "has no release")
    assert not desk.output.exists()
    for wrong in ("0", "-1", "nan", "inf"):
        refused(run("ledger", "cap", *mine, "--epsilon", wrong), 2, "cap needs")


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_workload_that_does_more_than_read_is_refused(desk, source, target, command):
    path, output = desk.folder / "w.sql", desk.folder / "made"
    path.write_text("SELECT 1; UPDATE customer SET credit = 0;", encoding="utf-8")
    words = {"run": [path, "--on", source], "compare": [source, target, "-w", path]}[command]
    refused(run(command, *words, "-o", output), 2, "query", "take it out of the workload")
    assert market.one(source, "SELECT count(*) FROM customer") == 20
    assert not output.is_file()
    assert not list(output.glob("*"))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("pipeline.extract._read_private", ("rows could not be read", "ValueError")),
        (
            "synthesizers.independent.IndependentSynthesizer.fit",
            ("internal error: ValueError", "-v", "private"),
        ),
    ],
)
def test_an_internal_error_shows_no_values(desk, monkeypatch, place, said):
    """A library's error text may quote a row."""

    def explode(*given, **more):
        raise ValueError("could not convert 'Mrs hunter2secret, 4111-1111-1111-1111'")

    monkeypatch.setattr(f"privbench.{place}", explode)
    refused(desk.fit(), 5, *said)
    assert not desk.output.exists()
