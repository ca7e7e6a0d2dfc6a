"""Bad input through the command line: exit code, a message that helps, and no budget spent."""

from __future__ import annotations

import re

import market
import psycopg
import pytest
from click.testing import CliRunner
from psycopg import conninfo

from privbench import pipeline
from privbench.cli import main

NOWHERE = "host=/nonexistent-directory dbname=x connect_timeout=2"


class Desk:
    """One source, one config file, one ledger directory, and the command line."""

    def __init__(self, source, folder):
        self.source, self.folder = source, folder
        self.config, self.ledger = folder / "market.toml", folder / "ledger"
        self.output = folder / "m.privbench"
        self.write()

    def write(self, *more, base=market.CONFIG):
        ledger = f'[ledger]\npath = "{self.ledger}"\n'
        self.config.write_text("\n".join([base, ledger, *more]), encoding="utf-8")

    def run(self, *arguments):
        return CliRunner().invoke(main, [str(item) for item in arguments])

    def fit(self, *more, source=None):
        return self.run("fit", source or self.source, "-c", self.config, "-o", self.output, *more)

    def ledger_text(self):
        """All that the ledger holds."""
        return [path.read_bytes() for path in sorted(self.ledger.rglob("ledger.sqlite"))]

    def untouched(self):
        """No release was opened, no model written."""
        return not list(self.folder.rglob("ledger.sqlite")) and not self.output.exists()


@pytest.fixture(scope="module")
def source(make_database):
    dsn = make_database()
    market.create(dsn, 20)
    return dsn


@pytest.fixture
def desk(source, tmp_path):
    return Desk(source, tmp_path)


def refused(result, code, *needles):
    """The exit code, and one message on stderr that holds all of these."""
    text = re.sub(r"\s+", " ", result.stderr)
    assert result.exit_code == code, (result.exit_code, text, result.exception)
    assert result.stdout == ""
    assert "Traceback" not in text
    for needle in needles:
        assert re.search(needle, text), (needle, text)


def test_the_desk_works(desk):
    """Without this the refusals below would prove nothing."""
    result = desk.fit()
    assert result.exit_code == 0, result.stderr
    assert not desk.untouched()
    assert f"\n{desk.output}: ε = " in f"\n{result.stdout}"


# Databases: 3.


@pytest.mark.parametrize("command", ["inspect", "fit", "check", "plan", "clone", "ledger"])
def test_unreachable_server(desk, command):
    result = {
        "inspect": lambda: desk.run("inspect", NOWHERE),
        "fit": lambda: desk.fit(source=NOWHERE),
        "check": lambda: desk.run("check", desk.config, NOWHERE),
        "plan": lambda: desk.run("plan", desk.config, NOWHERE),
        "clone": lambda: desk.run("clone", NOWHERE, desk.source, "-c", desk.config),
        "ledger": lambda: desk.run("ledger", "show", NOWHERE, "--ledger", desk.ledger),
    }[command]()
    refused(result, 3, "(?i)nonexistent-directory|cannot connect|could not connect")
    assert desk.untouched()


def test_a_password_is_not_shown(desk):
    result = desk.fit(source=f"{NOWHERE} user=me password=hunter2secret")
    refused(result, 3)
    assert "hunter2secret" not in result.stderr


@pytest.fixture
def reader(source):
    """A role that may read every table but one."""
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS market_reader; CREATE ROLE market_reader LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO market_reader")
        connection.execute("REVOKE SELECT ON line FROM market_reader")
        yield conninfo.make_conninfo(source, user="market_reader")
        connection.execute("DROP OWNED BY market_reader; DROP ROLE market_reader")


@pytest.mark.parametrize("command", ["fit", "check", "plan"])
def test_no_select_on_one_table(desk, reader, command):
    result = {
        "fit": lambda: desk.fit(source=reader),
        "check": lambda: desk.run("check", desk.config, reader),
        "plan": lambda: desk.run("plan", desk.config, reader),
    }[command]()
    refused(result, 3, 'GRANT SELECT ON "public"."line" TO "market_reader"')
    assert desk.untouched()


def test_select_alone_is_enough(desk, reader, source):
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("GRANT SELECT ON line TO market_reader")
    result = desk.fit(source=reader)
    assert result.exit_code == 0, result.stderr


def test_row_level_security_would_hide_rows(desk, reader, source):
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("GRANT SELECT ON line TO market_reader")
        connection.execute("ALTER TABLE product ENABLE ROW LEVEL SECURITY")
        try:
            result = desk.fit(source=reader)
        finally:
            connection.execute("ALTER TABLE product DISABLE ROW LEVEL SECURITY")
    refused(result, 3, "row-level security", "public.product", "BYPASSRLS")
    assert desk.untouched()


@pytest.mark.parametrize("spelling", ["same", "URI"])
def test_target_is_the_source(desk, spelling):
    target = desk.source
    if spelling == "URI":
        parts = conninfo.conninfo_to_dict(desk.source)
        target = f"postgresql:///{parts['dbname']}?host={parts['host']}&user={parts['user']}"
    for more in ([], ["--replace"]):
        result = desk.run("clone", desk.source, target, "-c", desk.config, *more)
        refused(result, 3, "the target is the source")
    assert desk.untouched()
    assert market.one(desk.source, "SELECT count(*) FROM customer") == 20


def test_target_is_not_empty(desk, make_database):
    target = make_database()
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 1 AS i")
    result = desk.run("clone", desk.source, target, "-c", desk.config)
    refused(result, 3, "not empty", "mine", "--replace")
    assert desk.untouched()
    assert market.one(target, "SELECT i FROM mine") == 1


def test_target_may_not_be_written(desk, make_database, source):
    """A role that may connect but not create."""
    target = make_database()
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS market_guest; CREATE ROLE market_guest LOGIN")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    assert desk.fit().exit_code == 0
    guest = conninfo.make_conninfo(target, user="market_guest")
    refused(desk.run("load", desk.output, guest), 3, "permission denied")
    spent = desk.ledger_text()
    refused(
        desk.run("clone", desk.source, guest, "-c", desk.config, "--epsilon", "1"),
        3,
        "permission denied",
    )
    assert desk.ledger_text() == spent
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute("DROP ROLE market_guest")


# Options and config: 2.


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "-inf"])
def test_epsilon_must_be_a_positive_number(desk, epsilon):
    refused(desk.fit("--epsilon", epsilon), 2, "epsilon", "greater than 0|finite")
    desk.write(base=market.CONFIG.replace("epsilon = 5.0", f"epsilon = {epsilon}"))
    refused(desk.fit(), 2, r"market\.toml", "epsilon")
    assert desk.untouched()


@pytest.mark.parametrize("delta", ["-1e-9", "1", "nan"])
def test_delta_must_be_a_probability(desk, delta):
    refused(desk.fit("--delta", delta), 2, "delta")
    assert desk.untouched()


def test_no_epsilon(desk):
    desk.write(base=market.CONFIG.replace("epsilon = 5.0", ""))
    for result in (desk.fit(), desk.run("plan", desk.config, desk.source)):
        refused(result, 2, "no ε is given", "--epsilon")
    assert desk.untouched()


def test_zcdp_without_delta(desk):
    desk.write(base=market.CONFIG.replace("delta = 1e-6", 'accounting = "zcdp"\ndelta = 0'))
    refused(desk.fit(), 2, "zcdp", "delta > 0")
    assert desk.untouched()


def test_categories_without_a_list_and_without_delta(desk):
    desk.write('[tables."public.product".columns.title]\nkind = "categories"')
    for result in (
        desk.fit("--delta", "0"),
        desk.run("plan", desk.config, desk.source, "--delta", "0"),
    ):
        refused(result, 2, r"public\.product\.title", "(?i)delta|δ", "values|list")
    assert desk.untouched()


SECTIONS = {
    "table that does not exist": (
        '[tables."public.custommer"]\nown = []',
        [r"public\.custommer", r"Did you mean public\.customer\?"],
    ),
    "table far from any": ('[tables."x.y"]\nown = []', [r"x\.y", "no such table"]),
    "column that does not exist": (
        '[tables."public.product".columns.titel]\nkind = "text"',
        [r"public\.product\.titel", r"Did you mean title\?"],
    ),
    "own that is no key": (
        '[tables."public.product"]\nown = ["price"]',
        [r"public\.product\.price", "not a foreign key", r"own = \[\]"],
    ),
    "own on a self-reference": (
        '[tables."public.customer"]\nown = ["referrer"]',
        [r"public\.customer\.referrer", "its own table"],
    ),
    "own of a public table": (
        '[tables."public.customer"]\nown = ["region"]',
        [r"public\.customer\.region", r"public table public\.region"],
    ),
    "two owners": (
        '[tables."public.product"]\nown = [["a"], ["b"]]',
        [r"tables\.public\.product\.own", "two OWN keys", "at most one", "REF"],
    ),
    "range on text": (
        '[tables."public.product".columns.title]\nkind = "range"\nmin = 1\nmax = 2',
        [r"public\.product\.title", "'range' does not fit the type text", "skip"],
    ),
    "range without ends": (
        '[tables."public.product".columns.price]\nkind = "range"',
        ["needs min and max"],
    ),
    "values against a CHECK": (
        '[tables."public.product".columns.status]\nvalues = ["active", "lost"]',
        [r"public\.product\.status", "'lost'", "CHECK"],
    ),
    "unknown key in a section": ("[privacie]\nx = 1", ["privacie", "not permitted"]),
    "unknown key of a table": (
        '[tables."public.product"]\nowns = []',
        [r"tables\.public\.product\.owns", "not permitted"],
    ),
    "unknown role": (
        '[tables."public.product"]\nrole = "secret"',
        [r"tables\.public\.product\.role", "'private' or 'public'"],
    ),
    "unknown synthesizer": (
        '[synthesizer]\nname = "gan"',
        ["gan", "privbench-paper", "independent"],
    ),
    "unknown option": (
        "[synthesizer.options]\nlearning_rate = 1",
        ["learning_rate", "privbench-paper|synthesizer"],
    ),
    "option out of range": (
        '[synthesizer]\nname = "privbench-paper"\n[synthesizer.options]\nalpha = 7',
        ["alpha", "less than or equal"],
    ),
    "not TOML": ("[tables", ["not valid TOML", r"market\.toml"]),
    "public table that points to a private one": (
        '[tables."public.product"]\nrole = "private"\n[tables."public.customer"]\nrole = "public"',
        [r"public\.customer", "points to the private table"],
    ),
}


@pytest.mark.parametrize("case", SECTIONS)
def test_a_config_that_does_not_fit(desk, case):
    section, needles = SECTIONS[case]
    if case == "public table that points to a private one":
        section = '[tables."public.customer"]\nrole = "public"'
        desk.write(section, base=market.CONFIG.replace('role = "public"', 'role = "private"'))
    else:
        desk.write(section)
    refused(desk.fit(), 2, *needles)
    assert desk.untouched()


def test_owner_not_decided(desk):
    """Rows that refer to private rows and have no declared owner are not taken as units."""
    desk.write(base=market.CONFIG.replace('own = ["purchase_id"]\n', ""))
    refused(desk.fit(), 2, r"public\.line", r"own = \[\]")
    assert desk.untouched()


def test_unknown_synthesizer_on_the_command_line(desk):
    refused(desk.fit("--synthesizer", "gan"), 2, "gan", "independent")
    assert desk.untouched()


def test_missing_config_file(desk):
    desk.config.unlink()
    refused(desk.fit(), 2, r"cannot read the config", r"market\.toml")
    assert desk.untouched()


def test_config_is_not_text(desk):
    desk.config.write_bytes(b"\xff\xfe\x00")
    refused(desk.fit(), 2, r"cannot read the config")


def test_unknown_schema(desk):
    refused(desk.run("inspect", desk.source, "--schema", "nope"), 2, "nope")


def test_a_proposal_is_not_accepted_off_a_terminal(desk):
    result = desk.run(
        "fit", desk.source, "-o", desk.output, "--epsilon", "5", "--ledger", desk.ledger
    )
    refused(result, 2, "proposed but not accepted", "--yes", "privbench inspect")
    # What was proposed is shown, on stderr.
    assert "public.purchase" in result.stderr
    assert desk.untouched()


def test_a_proposal_is_accepted_by_yes(desk):
    result = desk.run(
        "fit", desk.source, "-o", desk.output, "--epsilon", "5", "--ledger", desk.ledger, "--yes"
    )
    assert result.exit_code == 0, result.stderr
    assert "Roles were proposed by the tool and accepted." in result.stdout
    assert pipeline.Model.load(desk.output).promise.roles == "proposed"


@pytest.mark.parametrize("scale", ["0", "-1", "nan", "1e9"])
def test_scale_out_of_range(desk, scale, make_database):
    assert desk.fit().exit_code == 0
    refused(desk.run("load", desk.output, make_database(), "--scale", scale), 2, "--scale")
    refused(desk.run("sample", desk.output, "-o", desk.folder / "d", "--scale", scale), 2, "scale")


def test_clone_with_a_bad_scale_spends_nothing(desk, make_database):
    result = desk.run("clone", desk.source, make_database(), "-c", desk.config, "--scale", "0")
    refused(result, 2, "--scale")
    assert desk.untouched()


@pytest.mark.parametrize("where", ["no such folder", "a folder"])
def test_an_output_that_cannot_be_written_spends_nothing(desk, where):
    if where == "a folder":
        desk.output.mkdir()
    else:
        blocked = desk.folder / "file"
        blocked.write_text("")
        desk.output = blocked / "m"
    result = desk.fit()
    refused(result, 2, "cannot write the model")
    assert not list(desk.folder.rglob("ledger.sqlite"))


def test_a_model_is_not_replaced_unasked(desk):
    desk.output.write_bytes(b"mine")
    refused(desk.fit(), 2, "is there already", "--force")
    assert desk.output.read_bytes() == b"mine"
    assert not list(desk.folder.rglob("ledger.sqlite"))
    assert desk.fit("--force").exit_code == 0
    assert desk.output.read_bytes() != b"mine"


# Privacy: 4.


def test_cap_reached(desk):
    desk.write("cap_epsilon = 7.5")
    assert desk.fit().exit_code == 0
    before = desk.ledger_text()
    desk.output = desk.folder / "second"
    refused(desk.fit(), 4, "over the cap of 7.5")
    assert not desk.output.exists()
    assert desk.ledger_text() == before


def test_cap_set_by_the_ledger_command(desk):
    refused(desk.fit("--max-epsilon-per-month", "3"), 4, "would be 5, over the cap of 3")
    desk.write("max_epsilon_per_month = 3")
    refused(desk.fit("--max-epsilon-per-month", "6"), 4, "would be 5, over the cap of 3")
    desk.write()
    mine = ["--identity", "market", "--ledger", desk.ledger]
    desk.run("ledger", "cap", *mine, "--epsilon", "9", "--max-epsilon-per-month", "2.5")
    result = desk.run("ledger", "cap", *mine, "--epsilon", "4")
    assert result.exit_code == 0, result.stderr
    assert "No longer capped: ε a month (the cap was 2.5)." in result.stdout
    told = desk.run("ledger", "show", "-c", desk.config)
    assert told.stdout == desk.run("ledger", "show", *mine).stdout
    assert "Cap: ε 4" in result.stdout
    refused(desk.fit(), 4, "over the cap of 4")
    for wrong in ("0", "-1", "nan", "inf"):
        refused(desk.run("ledger", "cap", *mine, "--epsilon", wrong), 2, "cap needs")


def test_resume_of_nothing(desk):
    for name in ("nonsense", "00000000-0000-0000-0000-000000000000"):
        refused(desk.fit("--resume", name), 4, "knows no release")
    assert not desk.output.exists()


def test_a_seeded_fit_under_a_cap(desk):
    desk.write("cap_epsilon = 100.0")
    refused(desk.fit("--seed", "1"), 4, "seeded noise")


def test_a_damaged_ledger(desk):
    assert desk.fit().exit_code == 0
    (file,) = desk.ledger.rglob("ledger.sqlite")
    file.write_bytes(file.read_bytes().replace(b'"epsilon":5.0', b'"epsilon":0.1'))
    refused(desk.fit("--force"), 4, "is damaged")


# Models and workloads: 2.


def test_a_model_that_is_none(desk, make_database):
    desk.output.write_bytes(b"PK\x03\x04 not really")
    target = make_database()
    refused(desk.run("load", desk.output, target), 2, "not a readable model")
    refused(desk.run("sample", desk.output, "-o", desk.folder / "d"), 2, "not a readable model")
    refused(desk.run("load", desk.folder / "none", target), 2, "there is no model")
    assert market.one(target, "SELECT count(*) FROM pg_class WHERE relnamespace = 2200") == 0


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM customer;",
        "SELECT 1; UPDATE customer SET credit = 0;",
        "WITH gone AS (DELETE FROM customer RETURNING *) SELECT * FROM gone;",
        "COPY customer TO PROGRAM 'sh';",
        "SELECT pg_terminate_backend(1);",
        "DO $$ BEGIN DELETE FROM customer; END $$;",
    ],
)
@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_workload_that_does_more_than_read(desk, source, make_database, text, command):
    path = desk.folder / "w.sql"
    path.write_text(text, encoding="utf-8")
    if command == "run":
        result = desk.run("run", path, "--on", source, "-o", desk.folder / "r.json")
    else:
        result = desk.run("compare", source, make_database(), "-w", path, "-o", desk.folder / "d")
    refused(result, 2, "query", "take it out of the workload")
    assert market.one(source, "SELECT count(*) FROM customer") == 20
    assert not (desk.folder / "r.json").exists()


def test_a_workload_that_is_not_there(desk):
    result = desk.run("run", desk.folder / "none.sql", "--on", desk.source, "-o", "r")
    refused(result, 2, r"none\.sql")


# The command line itself.


@pytest.mark.parametrize(
    "line",
    ["frobnicate", "fit", "fit x", "load m", "fit x -o y --epsilon many", "--log-format xml"],
)
def test_usage(desk, line):
    result = desk.run(*line.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error" in result.stderr


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
