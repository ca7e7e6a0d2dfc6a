"""A release is whole, and an installation of it works without this checkout."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import licences  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [
    text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)
]


def _python(version: str) -> str | None:
    """A Python of that version that can make environments, if this machine has one."""
    for name in (sys.executable, f"python{version}"):
        probe = [name, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"]
        if shutil.which(name):
            done = subprocess.run(probe, capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                return name
    return None


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """The folder of a release of what git tracks here."""
    if subprocess.run(["git", "rev-parse"], cwd=ROOT, check=False).returncode:
        pytest.skip("not a checkout of git")
    folder = tmp_path_factory.mktemp("release") / "out"
    subprocess.run([ROOT / "scripts" / "release", folder], check=True)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_release_has_whole_archives_their_checksums_and_bills_of_materials(release):
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    names = [name for name in listed if (ROOT / name).is_file()]
    of_services = (".", "docker/.")
    tracked = {
        "privbench": {name for name in names if not name.startswith(("lab/", *of_services))},
        "privbench_lab": {name[4:] for name in names if name.startswith("lab/")},
    }
    for project, expected in tracked.items():
        archive = release / "dist" / f"{project}-{PROJECT['version']}.tar.gz"
        with tarfile.open(archive) as packed:
            inside = {name.partition("/")[2] for name in packed.getnames()}
        assert expected <= inside, expected - inside
    files = {str(path.relative_to(release)): path for path in release.rglob("*") if path.is_file()}
    sums = dict(reversed(line.split()) for line in files.pop("SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()
    }
    assert sorted(path.rpartition(".")[2] for path in sums) == [
        "gz",
        "gz",
        "json",
        "json",
        *["whl"] * 2,
    ]
    bill = json.loads(files["sbom/privbench.cdx.json"].read_text())
    about = bill["metadata"]["component"]
    assert (about["name"], about["version"]) == (PROJECT["name"], PROJECT["version"])
    needed = {canonicalize_name(name) for name, _ in licences.needed()}
    assert {canonicalize_name(part["name"]) for part in bill["components"]} >= needed
    # Nothing of the machine that built it.
    assert "file://" not in json.dumps(bill)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_source_distribution_installs_in_an_empty_environment_and_clones(
    release, version, tmp_path
):
    """What a message says to install is what a feature needs, and the demonstration runs."""
    python = _python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on the PATH")
    subprocess.run([python, "-m", "venv", tmp_path / "venv"], check=True)
    dist, work = release / "dist", tmp_path / "work"
    work.mkdir()  # in the environment there are Parquet files: those of Arrow's tests
    # Remedies name the package: it comes from this folder.
    environment = {
        **os.environ, "PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}",
        "PIP_FIND_LINKS": str(dist), "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip

    def run(*words: object, code: int = 0) -> str:
        done = subprocess.run(
            list(map(str, words)), cwd=work, env=environment, text=True, capture_output=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    run("pip", "install", dist / "privbench-0.1.0.tar.gz", dist / "privbench_lab-0.1.0.tar.gz")
    assert PROJECT["version"] in run("privbench", "--version")
    assert "privbench inspect" in run("privbench", "inspect", "--help")
    assert "privbench audit" in run("privbench", "audit", "--help")
    (remedy,) = re.findall(r"pip install '\S+'", run("privbench", "inspect", "parquet:.", code=2))
    run("bash", "-c", remedy)
    assert "no tables" in run("privbench", "inspect", "parquet:.", code=2)
    run("pip", "install", "privbench[demo]")
    run("privbench", "demo", "--rows", "3000", "--queries", "10", "--out", "out")
    assert (work / "out" / "report.html").stat().st_size > 10_000


def test_the_page_of_licences_has_every_package_that_is_needed():
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (.+?) \| (.+?) \|$", licences.PAGE.read_text(), re.M)
    shown = {name: users.split(", ") for name, _, users in rows}
    extras = PROJECT["optional-dependencies"].items()
    direct = [("privbench", text) for text in PROJECT["dependencies"]]
    direct += [(f"`[{e}]`", t) for e, listed in extras if e not in {"site", "test"} for t in listed]
    for user, text in direct:
        assert user in shown[canonicalize_name(Requirement(text).name)], "run scripts/docs"
    assert "not named" not in {licence for _, licence, _ in rows}
