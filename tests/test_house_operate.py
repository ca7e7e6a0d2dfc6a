"""The examples for operators are what their services read and what the program takes.

Every file is read by a parser of its own kind, without a network, and every `privbench` line of it
by click.
"""

import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner
from cronsim import CronSim

ROOT = Path(__file__).parents[1]
NIGHTLY = ROOT / "docs" / "examples" / "nightly"
TESTS = ROOT / "docs" / "examples" / "tests"
DOCKER = ROOT / "docker"
SCRIPT = NIGHTLY / "nightly.sh"
IMAGE = ROOT / ".github" / "workflows" / "image.yml"
#: Workflows of GitHub, of the project and among the examples.
WORKFLOWS = [
    *sorted(IMAGE.parent.glob("*.yml")),
    *(path for path in sorted(NIGHTLY.parent.glob("*/*.yml")) if "gitlab" not in path.name),
]
#: Files of jobs, and the commands that each holds at least.
_WHOLE = frozenset({"check", "fit", "load", "compare"})
JOBS = {
    "nightly.sh": _WHOLE, "github-actions.yml": _WHOLE, "gitlab-ci.yml": _WHOLE,
    "crontab": frozenset({"ledger"}),
}  # fmt: skip


def _load(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def _texts(node: Any) -> Iterator[str]:
    """Everything that a job runs: `run:` of GitHub, `script:` of GitLab."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("run", "script"):
                yield from [value] if isinstance(value, str) else value
            else:
                yield from _texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from _texts(value)


def _crontab() -> dict[str, str]:
    """Schedules by their commands."""
    lines = (NIGHTLY / "crontab").read_text(encoding="utf-8").splitlines()
    jobs = [line.split(maxsplit=5) for line in lines if line and not re.match(r"#|[A-Z]+=", line)]
    return {job[5]: " ".join(job[:5]) for job in jobs}


def _manifests() -> dict[str, Any]:
    text = (NIGHTLY / "cronjob.yaml").read_text(encoding="utf-8")
    return {item["kind"]: item for item in yaml.safe_load_all(text)}


def _lines(path: Path) -> list[str]:
    """The `privbench` lines of an example, continued lines joined."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".yml":
        text = "\n".join(_texts(_load(path)))
    elif path.name == "crontab":
        text = "\n".join(_crontab())
    lines = (line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines())
    return [line for line in lines if line.startswith("privbench ")]


@pytest.mark.parametrize("name", JOBS)
def test_every_line_of_a_job_parses(name, parse_line):
    """A job has a cap and a gate, and keeps its reports at home."""
    lines = _lines(NIGHTLY / name)
    assert {line.replace("--log-format json ", "").split()[1] for line in lines} >= JOBS[name]
    for line in lines:
        parse_line(line)
    if "fit" in JOBS[name]:
        (fit,) = [line for line in lines if " fit " in line]
        assert {"--ledger", "--max-epsilon-per-month"} <= set(fit.split())
        assert any("--fail-if" in line for line in lines if " compare " in line)
    # Whoever may decide over a cap sets it once: a job would lift one that was lowered.
    assert not re.search("upload-artifact|ledger cap", (NIGHTLY / name).read_text(encoding="utf-8"))


def test_pipelines_on_a_clone_read_no_source(parse_line):
    """A new model is proposed whatever a report on the source says, and the report stays inside."""
    for path in TESTS.glob("*.yml"):
        for line in _lines(path):
            parse_line(line)
    jobs = _load(TESTS / "new-model.yml")["jobs"]
    assert "compare" not in "\n".join(_texts(jobs["fit"]))
    for pipeline in (
        jobs["propose"],
        _load(TESTS / "github-actions.yml"),
        _load(TESTS / "gitlab-ci.yml"),
    ):
        assert "service=" not in "\n".join(_texts(pipeline))
    assert (jobs["propose"]["needs"], jobs["warn"]["needs"]) == (["fit"], ["fit"])
    (compare,) = [text for text in _texts(jobs["warn"]) if "compare" in text]
    assert re.search(r'compare [^|]*> "\$report\.log" 2>&1 \|\|', compare.replace("\\\n", " "))


def test_the_script_is_one_that_bash_reads():
    assert SCRIPT.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)


SCHEDULES = {
    **_crontab(),
    "GitHub": _load(NIGHTLY / "github-actions.yml")[True]["schedule"][0]["cron"],
    "Kubernetes": _manifests()["CronJob"]["spec"]["schedule"],
}


@pytest.mark.parametrize("job", SCHEDULES)
def test_schedules_are_those_of_a_day_or_a_week(job):
    times = CronSim(SCHEDULES[job], datetime(2030, 1, 1, tzinfo=UTC))
    first, second = next(times), next(times)
    assert (second - first).days == (7 if "ledger show" in job else 1)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *(("github-workflows", path) for path in WORKFLOWS),
        ("gitlab-ci", NIGHTLY / "gitlab-ci.yml"),
        ("gitlab-ci", TESTS / "gitlab-ci.yml"),
        ("compose-spec", DOCKER / "compose.yaml"),
        ("citation-file-format", ROOT / "CITATION.cff"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_keep_the_schema_of_their_kind(kind, path):
    from check_jsonschema import main as check_jsonschema

    result = CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{kind}", str(path)])
    assert result.exit_code == 0, result.output


def test_actionlint_has_nothing_to_say_of_a_workflow():
    """It knows inputs and runtimes of actions, types of expressions, and labels of runners."""
    program = Path(sys.executable).with_name("actionlint")
    ours = 'label "privbench" is unknown'  # of the runner of whoever takes the example
    done = subprocess.run(
        [program, "-ignore", ours, *WORKFLOWS], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


def test_the_matrix_is_what_the_metadata_promises():
    """Each version of PostgreSQL, oldest and newest Python; a release installs on all of these."""
    jobs = _load(IMAGE.with_name("test.yml"))["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = re.findall(r":: (3\.\d+)$", "\n".join(project["classifiers"]), re.M)
    tested = jobs["test"]["strategy"]["matrix"]
    assert len(tested["python"]) == 3
    assert {promised[0], promised[-1]} <= set(tested["python"]) <= set(promised)
    assert tested["postgres"] == ["15", "16", "17", "18"]
    (installed,) = [step["with"] for step in jobs["parts"]["steps"] if "with" in step]
    assert sorted(installed["python-version"].split()) == promised
    parts = {
        item["part"]: item["tests"].split()
        for item in jobs["parts"]["strategy"]["matrix"]["include"]
    }
    assert parts.keys() == {"lint", "build", "docs"}
    assert [path for paths in parts.values() for path in paths if not (ROOT / path).exists()] == []
    assert "./scripts/test --all" in _texts(jobs["nightly"])


def test_a_release_is_published_by_hand_and_without_a_stored_secret():
    text = IMAGE.with_name("release.yml").read_text(encoding="utf-8")
    workflow = _load(IMAGE.with_name("release.yml"))
    assert [*workflow[True]] == ["workflow_dispatch"]
    assert "secrets." not in text
    publish = workflow["jobs"]["publish"]
    assert (publish["if"], publish["environment"]) == ("inputs.publish", "release")
    assert publish["permissions"] == {"id-token": "write"}
    assert "./scripts/release out" in _texts(workflow["jobs"]["build"])


def test_manifests_keep_the_schema_of_kubernetes_and_the_pod_has_no_rights():
    found = _manifests()
    for item in found.values():
        kubernetes_validate.validate(item, "1.29", strict=True)
    job = found["CronJob"]["spec"]
    assert (job["concurrencyPolicy"], job["jobTemplate"]["spec"]["backoffLimit"]) == ("Forbid", 0)
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 1000  # as in the image
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    volumes = {item["name"]: item for item in pod["volumes"]}
    places = {item["mountPath"]: volumes[item["name"]] for item in container["volumeMounts"]}
    environment = {item["name"]: item["value"] for item in container["env"]}
    assert "persistentVolumeClaim" in places[environment["STATE"]]
    assert "secret" in places[str(Path(environment["PGSERVICEFILE"]).parent)]
    assert "configMap" in places[container["workingDir"]]
    assert container["command"] == ["bash", f"{container['workingDir']}/{SCRIPT.name}"]
    # Kernels are compiled into a folder that can be written: the root file system cannot.
    assert "emptyDir" in places["/tmp"]


def test_units_are_those_of_systemd(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze on the PATH")
    for path in NIGHTLY.glob("privbench-nightly.*"):
        # systemd asks whether the program is there, and it is installed elsewhere.
        text = path.read_text(encoding="utf-8").replace("/usr/local/bin/nightly.sh", str(SCRIPT))
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    units = sorted(str(path) for path in tmp_path.iterdir())
    assert len(units) == 2
    done = subprocess.run(
        [program, "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "privbench-nightly" in done.stderr) == (0, False), done.stderr
    (when,) = re.findall(r"^OnCalendar=(.+)$", Path(units[1]).read_text(), flags=re.M)
    subprocess.run([program, "calendar", when], check=True, capture_output=True)


def test_compose_and_the_workflow_give_commands_that_click_takes(parse_line):
    services = _load(DOCKER / "compose.yaml")["services"]
    assert not any("ports" in service for service in services.values())
    command = services["privbench"]["command"]
    for name in ("source", "clone"):
        database = services[name]["environment"]["POSTGRES_DB"]
        assert f"postgresql://postgres@{name}/{database}" in command
    parse_line(" ".join(["privbench", *command]))
    inside = [*services["seed"]["entrypoint"], *command]
    copied = [word.removeprefix("/opt/privbench/") for word in inside if word.startswith("/opt/")]
    workflow = _load(IMAGE)
    copied += [workflow["env"]["COMPOSE_FILE"], *_paths(workflow), "docker/Dockerfile"]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    run = re.sub(r"\\\n\s*", "", "\n".join(_texts(workflow)))
    # What follows the service's name is a command of the program, unless another is named.
    calls = re.findall(r"^docker compose run (.*?)(privbench .+)$", run, re.M)
    lines = [line for options, line in calls if "--entrypoint" not in options]
    assert len(lines) == 2
    for line in lines:
        parse_line(line)


def _paths(workflow: dict[Any, Any]) -> list[str]:
    """What a change of leads to a run of the workflow."""
    events = workflow[True]["push"], workflow[True]["pull_request"]
    return [path.removesuffix("/**") for event in events for path in event["paths"]]


def test_image_copies_what_is_there_and_runs_without_rights():
    text = re.sub(r"\\\n", " ", (DOCKER / "Dockerfile").read_text(encoding="utf-8"))
    words = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    sources = [path for line in words if line[0] == "COPY" for path in line[1:-1]]
    assert {"pyproject.toml", "privbench", "schemas"} <= set(sources)
    assert all((ROOT / path).exists() for path in sources)
    assert not set((ROOT / ".dockerignore").read_text(encoding="utf-8").split()) & set(sources)
    assert [line[1] for line in words if line[0] == "USER"][-1] == "1000:1000"
    # A ledger that no command names lies on a volume all the same.
    (home,) = re.findall(r"XDG_STATE_HOME=(\S+)", text)
    assert re.search(rf'VOLUME .*"{home}/privbench"', text)
    assert next(line for line in words if line[0] == "ENTRYPOINT")[1] == '["privbench"]'
