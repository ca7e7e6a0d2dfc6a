"""The documentation builds as a site, and its tutorial works when it is typed."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SERVED = """privbench serve demo/clinic.privbench >address &
trap 'kill $! && wait $!' EXIT
for _ in $(seq 600); do [ -s address ] && break; sleep .1; done
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_builds_and_asks_no_other_server(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    bin = tmp_path / "venv" / "bin"
    pip = [bin / "pip", "install", "--quiet", "--disable-pip-version-check"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    subprocess.run([*pip, *extras["site"]], check=True)
    build = [bin / "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    subprocess.run(build, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    pages = list((tmp_path / "site").rglob("*.html"))
    assert {"index.html", "python.html", "SECURITY.html"} <= {page.name for page in pages}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe|link)[^>]*(?:src|href)="https?:[^"]*"', text)
    assert 'id="privbench.api.connect"' in (tmp_path / "site" / "python.html").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_works_as_it_is_typed(tmp_path):
    text = (ROOT / "docs" / "first-clone.md").read_text(encoding="utf-8")
    (settings,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    script = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.S))
    for typed, run in (
        (r"^pip install .*\n", ""),
        (r"^privbench serve demo.*\n", _SERVED),
        (r"^export SOURCE=.*", 'export SOURCE="$(cat address)"'),
        (r"^(privbench inspect .*)", rf"\1\nprintf '%s' '{settings}' >>privbench.toml"),
    ):
        script, replaced = re.subn(typed, run, script, flags=re.M)
        assert replaced == 1, typed
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True
    )
    assert (tmp_path / "report" / "report.html").exists()
