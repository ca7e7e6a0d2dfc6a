"""The examples for pipelines and Docker are what the programs take."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
DOCKER = ROOT / "docker"


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


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_every_line_of_a_job_parses(name: str, parse_line: Callable[[str], None]) -> None:
    lines = [line for text in _texts(_load(EXAMPLES / name)) for line in _shell(text)]
    assert {"check", "fit", "ledger", "load", "compare"} <= _commands(lines)
    for line in lines:
        parse_line(line)


def _commands(lines: list[str]) -> set[str]:
    return {line.replace("--log-format json ", "").split()[1] for line in lines}


def test_nightly_script_parses(parse_line: Callable[[str], None]) -> None:
    path = EXAMPLES / "nightly"
    assert path.stat().st_mode & stat.S_IXUSR
    lines = _shell(path.read_text(encoding="utf-8"))
    assert {"check", "fit", "ledger", "load", "compare"} <= _commands(lines)
    for line in lines:
        parse_line(line)


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml", "nightly"])
def test_examples_have_a_cap_and_a_gate_and_keep_reports_home(name: str) -> None:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert "privbench ledger cap" in text
    assert "--fail-if" in text
    assert "upload-artifact" not in text


def test_jobs_of_github_need_jobs_that_are_there() -> None:
    jobs = _load(EXAMPLES / "github-actions.yml")["jobs"]
    assert all(set(job.get("needs", [])) <= set(jobs) for job in jobs.values())


def test_jobs_of_gitlab_have_stages_that_are_there() -> None:
    pipeline = _load(EXAMPLES / "gitlab-ci.yml")
    jobs = {
        name: job for name, job in pipeline.items() if isinstance(job, dict) and "script" in job
    }
    assert jobs
    assert all(job["stage"] in pipeline["stages"] for job in jobs.values())


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


def test_image_copies_what_is_there_and_runs_without_rights() -> None:
    text = re.sub(r"\\\n", " ", (DOCKER / "Dockerfile").read_text(encoding="utf-8"))
    words = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    sources = [path for line in words if line[0] == "COPY" for path in line[1:-1]]
    assert {"pyproject.toml", "privbench", "schemas"} <= set(sources)
    assert all((ROOT / path).exists() for path in sources)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert not set(ignored) & set(sources)
    users = [line[1] for line in words if line[0] == "USER"]
    assert users[-1] == "privbench"
    assert next(line for line in words if line[0] == "ENTRYPOINT")[1] == '["privbench"]'
