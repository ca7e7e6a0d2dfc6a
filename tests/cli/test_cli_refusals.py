"""Bad input through the command line: exit code, a message that helps, and no budget spent."""

import re
import shutil

import market
import pytest
from market import fail, run, succeed
from psycopg import conninfo
from sql_files import cases

from privbench import pipeline

NOWHERE = "host=/nonexistent-directory dbname=x connect_timeout=2"


class Desk:
    """One source, one config file, one ledger directory, and the command line."""

    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        self.ledger, self.output = folder / "ledger", folder / "m.privbench"
        self.write()

    def write(self, *more, base=market.CONFIG):
        self.config = market.config_file(self.folder, *more, toml=base)

    def fit(self, *more, source=None):
        return run("fit", source or self.source, "-c", self.config, "-o", self.output, *more)

    def plan(self, *more, source=None):
        return run("plan", self.config, source or self.source, *more)

    def clone(self, target, *more):
        return run("clone", self.source, target, "-c", self.config, *more)

    def ledger_text(self):
        """All that the ledger holds."""
        return [path.read_bytes() for path in sorted(self.ledger.rglob("ledger.sqlite"))]

    def untouched(self):
        """No release was opened, no model written."""
        return not list(self.folder.rglob("ledger.sqlite")) and not self.output.exists()


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
    for needle in needles:
        assert re.search(needle, text), (needle, text)


@pytest.mark.parametrize(("said", "line"), cases(__file__, "refused_commands.txt"))
def test_what_is_refused_spends_nothing(desk, target, said, line):
    code, _, words = said.partition(": ")
    parts = conninfo.conninfo_to_dict(desk.source)
    uri = f"postgresql:///{parts['dbname']}?host={parts['host']}&user={parts['user']}"
    given = {**vars(desk), "nowhere": NOWHERE, "uri": uri, "target": target}
    result = run(*(word.format(**given) for word in line.split()))
    refused(result, int(code), *words.split("; "))
    assert desk.untouched()
    assert market.one(desk.source, "SELECT count(*) FROM customer") == 20


def test_a_proposal_that_cannot_be_written_is_shown(desk):
    result = fail(2, "c.toml", "inspect", desk.source, "-o", desk.folder / "none" / "c.toml")
    assert re.search(r"cannot write .*c\.toml", result.stderr)
    assert "Privacy unit" in result.stdout


def test_a_password_is_not_shown(desk):
    result = desk.fit(source=f"{NOWHERE} user=me password=hunter2secret")
    refused(result, 3)
    assert "hunter2secret" not in result.stderr


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


@pytest.mark.parametrize("command", ["fit", "check", "plan"])
def test_no_select_on_one_table(desk, reader, command):
    words = {"fit": [reader, "-c", desk.config, "-o", desk.output]}
    result = run(command, *words.get(command, [desk.config, reader]))
    refused(result, 3, 'GRANT SELECT ON "public"."line" TO "market_reader"')
    assert desk.untouched()


def test_row_level_security_would_hide_rows(desk, reader, source):
    market.execute(source, "GRANT SELECT ON line TO market_reader")
    market.execute(source, "ALTER TABLE product ENABLE ROW LEVEL SECURITY")
    try:
        result = desk.fit(source=reader)
    finally:
        market.execute(source, "ALTER TABLE product DISABLE ROW LEVEL SECURITY")
    refused(result, 3, "row-level security", "public.product", "BYPASSRLS")
    assert desk.untouched()


def test_target_is_not_empty(desk, make_database):
    target = make_database("CREATE TABLE mine AS SELECT 1 AS i")
    refused(desk.clone(target), 3, "not empty", "mine", "--replace")
    assert desk.untouched()
    assert market.one(target, "SELECT i FROM mine") == 1


def test_target_was_fitted(spent):
    words = ["load", spent.output, spent.source, "--replace", "--ledger", spent.ledger]
    refused(run(*words), 3, "may be the source of a model", re.escape(str(spent.ledger)), "anew")
    assert market.one(spent.source, "SELECT count(*) FROM customer") == 20


def test_target_may_not_be_written(spent, make_database):
    """A role that may connect but not create."""
    target = make_database(
        "DROP ROLE IF EXISTS market_guest; CREATE ROLE market_guest LOGIN;"
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
    )
    guest = conninfo.make_conninfo(target, user="market_guest")
    result = run("load", spent.output, guest)
    refused(result, 3, "permission denied")
    assert "sample" not in result.stderr
    before = spent.ledger_text()
    refused(spent.clone(guest, "--epsilon", "1"), 3, "permission denied")
    assert spent.ledger_text() == before
    market.execute(target, "DROP ROLE market_guest")


def test_a_ledger_that_cannot_be_written_is_refused_before_anything_is_asked(source, tmp_path):
    (tmp_path / "file").write_text("")
    words = ("--epsilon", 1, "--ledger", tmp_path / "file", "-o", tmp_path / "m")
    result = run("fit", source, *words)
    refused(result, 4, "Not a directory", "ledger. path a directory")
    assert "Forest" not in result.stderr


# Options and config: 2.


TITLE = '[tables."public.product".columns.title]\n'


@pytest.mark.parametrize(("said", "text"), cases(__file__, "refused_configs.txt"))
def test_a_config_that_does_not_fit(desk, said, text):
    old, _, new = (part.strip() for part in text.rpartition("=>"))
    assert old in market.CONFIG
    desk.write(*([] if old else [new]), base=market.CONFIG.replace(old or "\0", new))
    refused(desk.fit(), 2, *said.split("; "))
    assert desk.untouched()


@pytest.mark.parametrize(
    ("base", "more", "options", "said"),
    [
        (market.CONFIG.replace("epsilon = 5.0", ""), "", (), ("no ε is given", "--epsilon")),
        (market.CONFIG, TITLE + 'kind = "categories"', ("--delta", "0"),
         (r"public\.product\.title", "(?i)delta|δ", "values|list")),
    ],
    ids=["no epsilon", "categories without a list and without delta"],
)  # fmt: skip
def test_a_budget_that_does_not_fit_is_refused_to_a_plan_too(desk, base, more, options, said):
    desk.write(more, base=base)
    refused(desk.fit(*options), 2, *said)
    refused(desk.plan(*options), 2, *said)
    assert desk.untouched()


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_config_that_is_missing_or_no_text(desk, content):
    desk.config.unlink()
    if content is not None:
        desk.config.write_bytes(content)
    refused(desk.fit(), 2, r"cannot read the config", r"market\.toml")
    assert desk.untouched()


def test_a_proposal_is_accepted_by_yes_and_not_off_a_terminal(desk):
    words = ("fit", desk.source, "-o", desk.output, "--epsilon", "5", "--ledger", desk.ledger)
    result = run(*words)
    refused(result, 2, "proposed but not accepted", "--yes", "privbench inspect")
    # What was proposed is shown, on stderr.
    assert "public.purchase" in result.stderr
    assert desk.untouched()
    # With --yes it is accepted.
    result = succeed(*words, "--yes")
    assert "Roles were proposed by the tool and accepted." in result.stdout
    assert pipeline.Model.load(desk.output).promise.roles == "proposed"


@pytest.mark.parametrize("scale", ["0", "-1", "nan", "1e9"])
def test_scale_out_of_range(fitted, scale, tmp_path):
    refused(run("load", fitted.output, "dbname=x", "--scale", scale), 2, "--scale")
    refused(run("sample", fitted.output, "-o", tmp_path, "--scale", scale), 2, "scale")


@pytest.mark.parametrize("where", ["no such folder", "a folder"])
def test_an_output_that_cannot_be_written_spends_nothing(desk, where):
    if where == "a folder":
        desk.output.mkdir()
    else:
        blocked = desk.folder / "file"
        blocked.write_text("")
        desk.output = blocked / "m"
    refused(desk.fit(), 2, "cannot write the model")
    assert not list(desk.folder.rglob("ledger.sqlite"))


def test_a_model_is_not_replaced_unasked(desk, reader, source):
    """By force it is, and to read the tables is right enough for that."""
    desk.output.write_bytes(b"mine")
    refused(desk.fit(), 2, "is there already", "--force")
    assert desk.output.read_bytes() == b"mine"
    assert not list(desk.folder.rglob("ledger.sqlite"))
    market.execute(source, "GRANT SELECT ON line TO market_reader")
    result = desk.fit("--force", source=reader)
    assert result.exit_code == 0, result.stderr
    assert desk.output.read_bytes() != b"mine"


# Privacy: 4.


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


# Models and workloads: 2.


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_workload_that_does_more_than_read(desk, source, target, command):
    """Which queries do: `test_workload_formats`, and the attacks."""
    path = desk.folder / "w.sql"
    path.write_text("SELECT 1; UPDATE customer SET credit = 0;", encoding="utf-8")
    words = {"run": [path, "--on", source], "compare": [source, target, "-w", path]}[command]
    made = desk.folder / "made"
    refused(run(command, *words, "-o", made), 2, "query", "take it out of the workload")
    assert market.one(source, "SELECT count(*) FROM customer") == 20
    assert not made.is_file()
    assert not list(made.glob("*"))


def test_an_internal_error_shows_no_values(desk, monkeypatch):
    """A library's error text may quote a row."""

    def explode(*given, **more):
        raise ValueError("could not convert 'Mrs Secret, 4111-1111-1111-1111'")

    monkeypatch.setattr("privbench.pipeline.extract._read_private", explode)
    refused(desk.fit(), 5, "rows could not be read", "ValueError")
    monkeypatch.undo()
    monkeypatch.setattr("privbench.synthesizers.graphical.GraphicalSynthesizer.fit", explode)
    result = desk.fit()
    refused(result, 5, "internal error: ValueError", "-v", "private")
    assert "Secret" not in result.stderr
    assert not desk.output.exists()
