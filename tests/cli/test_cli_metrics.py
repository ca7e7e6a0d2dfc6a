"""``--metrics``: monitors can read the file, and it holds what was released or is synthetic."""

import json

import market
import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as older_parser
from sql_files import sql_of

from privbench import __version__, pipeline

CONFIG = sql_of(__file__, "clinic.toml")
RUN = {"run_info", "run_exit_code", "run_end_time_seconds", "run_stage_seconds"}
LEDGER = {"ledger_epsilon", "ledger_cap_epsilon", "ledger_left_epsilon", "ledger_delta"}
RELEASE = {"release_epsilon", "release_delta", "release_spent", "release_left"}
CLONE = {"clone_rows", "clone_rows_dropped", "clone_rows_repaired", "clone_schema_losses"}
#: Nothing else may stand in a file of these: each of these is released, synthetic or of the run.
ALLOWED = {
    "clone": RUN | LEDGER | RELEASE | CLONE,
    "fit": RUN | LEDGER,  # past its cap
    "load": RUN | CLONE,
}
EXIT_CODES = {"clone": 0, "fit": 4, "load": 0, "compare": 1}


@pytest.fixture(scope="module")
def made(make_database, tmp_path_factory):
    """Exit codes, folder and target of a clone, a fit past its cap, a load and a comparison."""
    folder = tmp_path_factory.mktemp("metrics")
    source, target = make_database(sql_of(__file__, "clinic")), make_database()
    config, workload = folder / "config.toml", folder / "w.sql"
    config.write_text(CONFIG, encoding="utf-8")
    workload.write_text("SELECT count(*) FROM person;", encoding="utf-8")
    release = ["-c", config, "--max-epsilon-per-month", 300, "--ledger", folder / "ledger"]
    words = ["-w", workload, "-o", folder / "r", "--repeats", 1, "--no-floor", "--no-explain"]
    words += ["--no-distributions", "--fail-if", "qerror.max >= 1"]
    commands = {
        "clone": ["clone", source, target, *release, "-o", folder / "m"],
        "fit": ["fit", source, *release, "-o", folder / "again"],
        "load": ["load", folder / "m", target, "--replace", "--trust-programs"],
        "compare": ["compare", source, target, *words],
    }
    codes = {}
    for name, command in commands.items():
        codes[name] = market.run(*command, "--metrics", folder / f"{name}.prom").exit_code
    return codes, folder, target


@pytest.fixture
def read(made):
    """``read(name)``: samples by name and further labels, once two parsers agree on them."""

    def call(name):
        text = (made[1] / f"{name}.prom").read_text(encoding="utf-8")
        assert text.endswith("# EOF\n")
        families = list(openmetrics.text_string_to_metric_families(text))
        assert {family.type for family in families} == {"gauge"}
        samples = [sample for family in families for sample in family.samples]
        again = [sample for family in older_parser(text) for sample in family.samples]
        assert samples == again
        found = {}
        for sample in samples:
            labels = dict(sample.labels)
            assert labels.pop("run") == name
            found[sample.name.removeprefix("privbench_"), *labels.values()] = sample.value
        assert len(found) == len(samples)
        return found

    return call


@pytest.mark.parametrize("name", EXIT_CODES)
def test_a_run_is_written_down_however_it_ends(made, read, name):
    assert made[0] == EXIT_CODES
    assert read(name)["run_info", name, __version__] == 1
    assert read(name)["run_exit_code",] == EXIT_CODES[name]
    assert read(name)["run_end_time_seconds",] > 1.7e9
    stages = {key[1] for key in read(name) if key[0] == "run_stage_seconds"}
    fitted = {"open the ledger", "extract", "totals", "domains", "learn"}
    loaded = {"sample", "load"}
    assert (
        stages
        == {
            "fit": set(),
            "load": {"read the model", *loaded},
            "clone": {"rehearse the schema", *fitted, *loaded},
            "compare": {"read the schema", "replay", "measure"},
        }[name]
    )


@pytest.mark.parametrize("name", ALLOWED)
def test_nothing_else_stands_in_it(read, name):
    """Whoever adds a figure says here that it is not computed from private rows."""
    found = {key[0] for key in read(name)}
    assert found <= ALLOWED[name]
    assert ALLOWED[name] - found <= {"run_stage_seconds", "clone_rows_repaired"}


def test_budget_is_that_of_model_and_ledger(made, read):
    found, refused = read("clone"), read("fit")
    promise = pipeline.Model.load(made[1] / "m").promise
    assert found["release_epsilon",] == promise.epsilon
    assert found["release_delta",] == promise.delta
    assert promise.accounting == "zcdp"
    assert found["release_spent", "rho"] > 100 * found["release_left", "rho"] >= 0
    for samples in (found, refused):
        spent = samples["ledger_epsilon", "all"]
        assert spent == samples["ledger_epsilon", "month"] == pytest.approx(promise.epsilon)
        assert samples["ledger_left_epsilon", "month"] == 300 - spent
        assert ("ledger_cap_epsilon", "all") not in samples


def test_rows_are_those_of_the_clone_and_files_of_several_runs_agree(made, read):
    found = {key[1]: value for key, value in read("load").items() if key[0] == "clone_rows"}
    for table, count in found.items():
        assert market.one(made[2], f"SELECT count(*) FROM {table}") == count
    dropped = {key[1] for key in read("load") if key[0] == "clone_rows_dropped"}
    assert dropped == set(found) != set()
    # A collector takes a name from two files only if both say the same of it.
    said = {}
    for path in made[1].glob("*.prom"):
        for family in openmetrics.text_string_to_metric_families(path.read_text()):
            assert said.setdefault(family.name, family.documentation) == family.documentation


def test_a_comparison_s_figures_are_the_report_s_and_as_confidential(made, read):
    data = json.loads((made[1] / "r" / "comparison.json").read_text())
    found = read("compare")
    for point in ("mean", "p50", "p95", "max"):
        assert found["qerror", point] == data["figures"][f"qerror.{point}"]
    assert found["gate_failed", "qerror.max >= 1"] == 1
    text = (made[1] / "compare.prom").read_text()
    for family in openmetrics.text_string_to_metric_families(text):
        if family.name.removeprefix("privbench_") not in RUN:
            assert "CONFIDENTIAL" in family.documentation, family.name


def test_metrics_that_fail_do_not_hide_what_the_command_ended_with(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "no space is left")

    monkeypatch.setattr("privbench.cli.metrics.write_text", full)
    said = "there is no model at", "no metrics: cannot write"
    market.fail(2, said, "load", tmp_path / "absent", "host=/nowhere", "--metrics", tmp_path / "m")


@pytest.mark.parametrize("place", ["absent/m.prom", ".", "m", "../config.toml"])
def test_a_file_that_cannot_be_written_is_refused_before_budget_is_spent(tmp_path, place):
    folder = tmp_path / "f"
    folder.mkdir()
    config, model, ledger = tmp_path / "config.toml", folder / "m", folder / "ledger"
    config.write_text(CONFIG)
    words = ["fit", "host=/nowhere", "-c", config, "--ledger", ledger, "-o", model]
    market.fail(2, "cannot write", *words, "--metrics", folder / place)
    assert list(folder.iterdir()) == []
    assert config.read_text() == CONFIG
