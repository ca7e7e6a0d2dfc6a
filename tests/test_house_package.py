"""The source distribution is whole, and an installation of it works without this checkout."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BUILD = (
    "import sys; from setuptools.build_meta import build_sdist; print(build_sdist(sys.argv[1]))"
)


def _tracked():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a checkout of git")
    return [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_source_distribution_installs_and_runs_its_demo(tmp_path):
    names, tree, venv = _tracked(), tmp_path / "tree", tmp_path / "venv"
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "setuptools>=77"], check=True)
    for project in (tree, tree / "lab"):
        subprocess.run([venv / "bin" / "python", "-c", _BUILD, tmp_path], cwd=project, check=True)
    archive = tmp_path / "privbench-0.1.0.tar.gz"
    with tarfile.open(archive) as files:
        inside = {name.partition("/")[2] for name in files.getnames()}
    of_lab_and_services = ("lab/", ".", "docker/.")
    assert {name for name in names if not name.startswith(of_lab_and_services)} <= inside
    shutil.rmtree(tree)
    subprocess.run([*pip, f"{archive}[demo]", tmp_path / "privbench_lab-0.1.0.tar.gz"], check=True)
    demo = [venv / "bin" / "privbench", "demo", "--rows", "3000", "--queries", "10"]
    subprocess.run([*demo, "--out", tmp_path / "out"], cwd=tmp_path, check=True)
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
