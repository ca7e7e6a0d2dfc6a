"""The documentation builds as a site, and its tutorials work when they are typed."""

import doctest
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packages import install

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
#: That of the notebook is run by test_notebook.py.
NAMES = sorted(page.stem for page in TUTORIALS.glob("*.md") if page.stem != "notebook")
#: Fenced blocks of a page: language, title, text.
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.M | re.S)
#: What a reader does in another way than a test: the first terminal, the address that it prints.
_TYPED = {
    r"^pip install .*\n": "",
    r"^(privbench serve [^ ]+)\n": r"""\1 >address &
trap 'kill $! && wait $!' EXIT
for _ in $(seq 1200); do [ -s address ] && break; sleep .1; done
""",
    r"^export SOURCE=.*": 'export SOURCE="$(cat address)"',
}
_ELSEWHERE = r'<(?:script|img|iframe|link|source)[^>]*(?:src|href)="(?:https?:)?//[^"]*"'


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
        assert not re.findall(_ELSEWHERE, text), page
        # Of these the theme's script would fetch a library, or facts of a repository.
        assert not re.search(r'class="mermaid"|data-md-component="source"', text), page
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text("utf-8"))
    assert 'id="privbench.api.connect"' in (tmp_path / "site" / "python.html").read_text()
    mechanisms = (tmp_path / "site" / "mechanisms.html").read_text(encoding="utf-8")
    assert 'id="privbench.privacy.queries.Histogram"' in mechanisms


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_works_as_it_is_typed(name, tmp_path):
    """Files are those of titled blocks, and each output is the one that is shown after it."""
    blocks = _BLOCK.findall((TUTORIALS / f"{name}.md").read_text(encoding="utf-8"))
    script, shown = _script(blocks, tmp_path)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euc", f"exec 2>&1\n{script}"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(tmp_path / "installed")},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]
    printed = re.split(r"^@@ \d+\n", run.stdout, flags=re.M)[1:]
    for place, expected in shown.items():
        same = doctest.OutputChecker().check_output(
            expected, printed[place], doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        )
        assert same, f"expected:\n{expected}\nprinted:\n{printed[place]}"


def _script(blocks, folder):
    """What a reader types and writes, as one script; the text that is shown after each command."""
    files = {title: text for _, title, text in blocks if title}
    (folder / "installed").mkdir()
    if "pyproject.toml" in files:
        project = tomllib.loads(files["pyproject.toml"])["project"]
        modules = {Path(key).stem: text for key, text in files.items() if key.endswith(".py")}
        install(folder / "installed", project["name"], project["entry-points"], modules)
    steps, shown = [], {}
    for language, title, text in blocks:
        if title:
            mode = ">>" if title.startswith("add to ") else ">"
            name = title.removeprefix("add to ")
            steps.append(f"cat {mode}{name} <<'END OF FILE'\n{text}END OF FILE\n")
        elif language == "bash":
            for typed, replacement in _TYPED.items():
                text = re.sub(typed, replacement, text, flags=re.M)
            steps.append(f"echo '@@ {len(shown)}'\n{text}")
            shown[len(shown)] = "...\n"
        elif language == "text":
            shown[len(shown) - 1] = text
    return "\n".join(steps), shown
