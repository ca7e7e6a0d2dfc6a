"""What a command imports before it does anything, and commands of other packages."""

import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from privbench.cli import main

#: Prints, after the command line and each help text, which installed packages were imported.
PROBE = """
import sys
from pathlib import Path
import click
from click.testing import CliRunner
from privbench.cli import main

def show(*words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    places = [Path(file).parts for file in files if file]
    marks = [(parts, parts.index("site-packages")) for parts in places if "site-packages" in parts]
    print(" ".join(words), "|", *sorted({Path(parts[mark + 1]).stem for parts, mark in marks}))

def walk(group, *path):
    for name in group.list_commands(click.Context(group)):
        show(*path, name, "--help")
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            walk(command, *path, name)

show("--version")
walk(main)
show("--help")
"""
#: Packages that a help text may import: those of the command line itself, and what finds packages
#: that are installed from a checkout.
LIGHT = {"click", "lazy_loader", "markupsafe", "pygments", "rich"}


def test_help_and_version_import_no_library():
    lines = subprocess.check_output([sys.executable, "-c", PROBE], text=True).splitlines()
    imported = {words: set(names.split()) - {"privbench"} for words, names in map(_cut, lines)}
    assert {"--version", "--help", "fit --help", "workload generate --help"} <= imported.keys()
    heavy = {
        words: left
        for words, names in imported.items()
        if (left := {n for n in names - LIGHT if not n.startswith(("__editable__", "_distutils"))})
    }
    assert heavy == {}


def test_lists_of_commands_fit_80_columns_and_a_slip_is_understood():
    for words in ((), ("workload",), ("ledger",)):
        shown = CliRunner().invoke(main, [*words, "--help"]).output
        assert "..." not in shown.partition("Commands:")[2], words
    for slip, meant in (
        ("plann", "plan"),
        ("workload genrate", "generate"),
        ("fit --epsilo", "--epsilon"),
    ):
        assert re.search(f"Did you mean.* '{meant}'", CliRunner().invoke(main, slip.split()).stderr)


def test_importing_privbench_imports_no_library():
    """Its functions are there, and what they need comes with the first one."""
    probe = "import sys, privbench; print({'fit', 'connect'} <= {*dir(privbench)}, *sys.modules)"
    there, *names = subprocess.check_output([sys.executable, "-c", probe], text=True).split()
    assert there == "True"
    ours = {name for name in names if name.startswith("privbench")}
    assert ours <= {"privbench"}
    assert not {"click", "lazy_loader", "numpy", "pyarrow", "rich"} & {*names}


def _cut(line):
    words, _, names = line.partition(" | ")
    return words, names


PLUGIN = """
import click

@click.command()
@click.option("--times", type=int, default=1)
def hello(times):
    "Say hello."
    click.echo("hello " * times)
"""


@pytest.fixture(scope="module")
def plugged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugged")
    made = {
        "outside_good": PLUGIN,
        "outside_exit": "raise SystemExit(0)",
        "outside_bad": "import no",
    }
    for name, text in made.items():
        (folder / f"{name}.py").write_text(text)
    about = folder / "outside-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[privbench.commands]\nhello = outside_good:hello\nfit = outside_good:hello\n"
        "gone = outside_bad:hello\nexits = outside_exit:hello\nnumber = outside_good:click\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    for name in made:
        sys.modules.pop(name, None)


def test_commands_of_other_packages_are_listed_and_run(plugged):
    assert "outside_good" not in sys.modules
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    assert "Say hello." in shown.output
    done = CliRunner().invoke(main, ["hello", "--times", "2"])
    assert (done.exit_code, done.output) == (0, "hello hello \n")


def test_no_other_package_takes_the_name_of_a_command(plugged):
    assert main.list_commands(click.Context(main)).count("fit") == 1
    assert "Learn a model" in CliRunner().invoke(main, ["fit", "--help"]).output


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone", "ModuleNotFoundError"),
        ("exits", "SystemExit"),
        ("number", "it is no click.Command"),
    ],
)
def test_a_command_that_cannot_be_loaded_breaks_itself_alone(plugged, name, reason):
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    assert re.search(rf"^  {name} +Cannot be loaded: {reason}\.$", shown.output, re.MULTILINE)
    said = f"Cannot be loaded: {reason}."
    assert said in CliRunner().invoke(main, [name, "--help"]).output
    done = CliRunner().invoke(main, [name, "grid.toml", "-o", "out"])
    assert done.exit_code == 5
    assert f"the command {name} c{said[1:]} Install outside again, or remove it." in done.stderr
