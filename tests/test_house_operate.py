"""The examples for operators are what their services read and what the program takes.

Every file is read by a parser of its own kind, without a network, and every `privbench` line of it
by click.
"""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner
from cronsim import CronSim

ROOT = Path(__file__).parents[1]
NIGHTLY = ROOT / "docs" / "examples" / "nightly"
DOCKER = ROOT / "docker"
SCRIPT = NIGHTLY / "nightly.sh"
IMAGE = ROOT / ".github" / "workflows" / "image.yml"
WORK = {"check", "fit", "load", "compare"}


def _shell(text: str) -> list[str]:
    """The `privbench` lines of a shell text, continued lines joined."""
    lines = (line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines())
    return [line for line in lines if line.startswith("privbench ")]


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


def _load(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def _crontab() -> list[tuple[str, str]]:
    """Schedule and command of every job."""
    lines = (NIGHTLY / "crontab").read_text(encoding="utf-8").splitlines()
    jobs = [line for line in lines if line and not re.match(r"#|[A-Z]+=", line)]
    found = [(" ".join(job.split()[:5]), job.split(maxsplit=5)[5]) for job in jobs]
    assert found
    return found


def _manifests() -> dict[str, Any]:
    text = (NIGHTLY / "cronjob.yaml").read_text(encoding="utf-8")
    return {item["kind"]: item for item in yaml.safe_load_all(text)}


def _lines(name: str) -> list[str]:
    """The `privbench` lines of an example."""
    path = NIGHTLY / name
    if path.suffix == ".yml":
        return [line for text in _texts(_load(path)) for line in _shell(text)]
    if name == "crontab":
        return [line for _, command in _crontab() for line in _shell(command)]
    return _shell(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["nightly.sh", "github-actions.yml", "gitlab-ci.yml", "crontab"])
def test_every_line_of_a_job_parses(name: str, parse_line: Callable[[str], None]) -> None:
    lines = _lines(name)
    commands = {line.replace("--log-format json ", "").split()[1] for line in lines}
    assert commands >= ({"ledger"} if name == "crontab" else WORK)
    for line in lines:
        parse_line(line)


@pytest.mark.parametrize("name", ["nightly.sh", "github-actions.yml", "gitlab-ci.yml"])
def test_jobs_have_a_cap_and_a_gate_and_keep_reports_home(name: str) -> None:
    (fit,) = [line for line in _lines(name) if " fit " in line]
    assert {"--ledger", "--max-epsilon-per-month"} <= set(fit.split())
    assert any("--fail-if" in line for line in _lines(name) if " compare " in line)
    text = (NIGHTLY / name).read_text(encoding="utf-8")
    assert "upload-artifact" not in text
    # Whoever may decide over a cap sets it once: a job would lift one that was lowered.
    assert "ledger cap" not in text


def test_the_script_is_one_that_bash_reads() -> None:
    assert SCRIPT.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)


SCHEDULES = {
    **{f"crontab: {command}": schedule for schedule, command in _crontab()},
    "GitHub": _load(NIGHTLY / "github-actions.yml")[True]["schedule"][0]["cron"],
    "Kubernetes": _manifests()["CronJob"]["spec"]["schedule"],
}


@pytest.mark.parametrize("job", SCHEDULES)
def test_schedules_are_those_of_a_day_or_a_week(job: str) -> None:
    times = CronSim(SCHEDULES[job], datetime(2030, 1, 1, tzinfo=UTC))
    first, second = next(times), next(times)
    assert (second - first).days == (7 if "ledger show" in job else 1)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("github-workflows", NIGHTLY / "github-actions.yml"),
        ("gitlab-ci", NIGHTLY / "gitlab-ci.yml"),
        ("compose-spec", DOCKER / "compose.yaml"),
        ("github-workflows", IMAGE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_keep_the_schema_of_their_kind(kind: str, path: Path) -> None:
    result = CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{kind}", str(path)])
    assert result.exit_code == 0, result.output


def test_jobs_need_jobs_and_stages_that_are_there() -> None:
    jobs = _load(NIGHTLY / "github-actions.yml")["jobs"]
    assert all(set(job.get("needs", [])) <= set(jobs) for job in jobs.values())
    pipeline = _load(NIGHTLY / "gitlab-ci.yml")
    stages = [job["stage"] for job in pipeline.values() if "script" in job]
    assert stages
    assert set(stages) <= set(pipeline["stages"])


def test_manifests_keep_the_schema_of_kubernetes() -> None:
    found = _manifests()
    assert set(found) == {"PersistentVolumeClaim", "CronJob"}
    for item in found.values():
        kubernetes_validate.validate(item, "1.29", strict=True)


def test_the_pod_has_no_rights_and_what_the_script_needs() -> None:
    found = _manifests()
    job = found["CronJob"]["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    assert job["jobTemplate"]["spec"]["backoffLimit"] == 0
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 1000  # as in the image
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"requests", "limits"} <= set(container["resources"])
    volumes = {item["name"]: item for item in pod["volumes"]}
    places = {item["mountPath"]: volumes[item["name"]] for item in container["volumeMounts"]}
    claim = found["PersistentVolumeClaim"]["metadata"]["name"]
    environment = {item["name"]: item["value"] for item in container["env"]}
    assert places[environment["STATE"]]["persistentVolumeClaim"] == {"claimName": claim}
    assert "secret" in places[str(Path(environment["PGSERVICEFILE"]).parent)]
    assert "configMap" in places[container["workingDir"]]
    assert container["command"] == ["bash", f"{container['workingDir']}/{SCRIPT.name}"]
    # Kernels are compiled into a folder that can be written: the root file system cannot.
    assert "emptyDir" in places["/tmp"]


def test_units_are_those_of_systemd(tmp_path: Path) -> None:
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


def test_compose_names_what_is_there(parse_line: Callable[[str], None]) -> None:
    compose = _load(DOCKER / "compose.yaml")
    services = compose["services"]
    assert set(services) == {"source", "clone", "seed", "privbench"}
    for service in services.values():
        assert set(service["networks"]) <= set(compose["networks"])
        named = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert named <= set(compose["volumes"])
        assert set(service.get("depends_on", [])) <= set(services)
        assert "ports" not in service
    for name in ("source", "clone"):
        assert "pg_isready" in services[name]["healthcheck"]["test"][1]
        assert services["privbench"]["command"].count(
            f"postgresql://postgres@{name}/{services[name]['environment']['POSTGRES_DB']}"
        )
    parse_line(" ".join(["privbench", *services["privbench"]["command"]]))
    for service in (services["seed"], services["privbench"]):
        build = service["build"]
        assert (DOCKER / build["context"] / build["dockerfile"]).is_file()
    inside = [*services["seed"]["entrypoint"], *services["privbench"]["command"]]
    copied = [word.removeprefix("/opt/privbench/") for word in inside if word.startswith("/opt/")]
    assert len(copied) == 2
    assert all((ROOT / path).is_file() for path in copied)


def test_the_workflow_builds_what_is_there_and_gives_commands_that_click_takes(
    parse_line: Callable[[str], None],
) -> None:
    workflow = _load(IMAGE)
    assert (ROOT / workflow["env"]["COMPOSE_FILE"]).is_file()
    run = re.sub(r"\\\n\s*", "", "\n".join(_texts(workflow)))
    assert "docker compose build" in run
    # What follows the service's name is a command of the program, unless another is named.
    calls = re.findall(r"^docker compose run (.*?)(privbench .+)$", run, re.M)
    lines = [line for options, line in calls if "--entrypoint" not in options]
    assert len(lines) == 2
    for line in lines:
        parse_line(line)
    for paths in (workflow[True]["push"]["paths"], workflow[True]["pull_request"]["paths"]):
        assert all((ROOT / path.removesuffix("/**")).exists() for path in paths)


def test_image_copies_what_is_there_and_runs_without_rights() -> None:
    text = re.sub(r"\\\n", " ", (DOCKER / "Dockerfile").read_text(encoding="utf-8"))
    words = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    sources = [path for line in words if line[0] == "COPY" for path in line[1:-1]]
    assert {"pyproject.toml", "privbench", "schemas"} <= set(sources)
    assert all((ROOT / path).exists() for path in sources)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert not set(ignored) & set(sources)
    users = [line[1] for line in words if line[0] == "USER"]
    assert users[-1] == "1000:1000"
    # A ledger that no command names lies on a volume all the same.
    (home,) = re.findall(r"XDG_STATE_HOME=(\S+)", text)
    (volumes,) = [json.loads(" ".join(line[1:])) for line in words if line[0] == "VOLUME"]
    assert f"{home}/privbench" in volumes
    assert next(line for line in words if line[0] == "ENTRYPOINT")[1] == '["privbench"]'
