"""What a command imports before it does anything, and commands of other packages."""

import re
import subprocess
import sys

import click
import pytest
from market import run
from packages import install

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
    parts = [file.split("/site-packages/") for file in files if file]
    print(" ".join(words), "|", *{Path(part[1]).parts[0] for part in parts if len(part) > 1})

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
LIGHT = re.compile(
    r"(click|lazy_loader|markupsafe|pygments|rich|privbench|__editable__|_distutils)"
)


def test_help_and_version_import_no_library():
    lines = subprocess.check_output([sys.executable, "-c", PROBE], text=True).splitlines()
    imported = {
        words: names.split() for words, _, names in (line.partition(" | ") for line in lines)
    }
    assert {"--version", "--help", "fit --help", "workload generate --help"} <= imported.keys()
    assert not {name for names in imported.values() for name in names if not LIGHT.match(name)}


def test_importing_privbench_imports_no_library():
    """Its functions are there, and what they need comes with the first one."""
    probe = "import sys, privbench; print({'fit', 'connect'} <= {*dir(privbench)}, *sys.modules)"
    there, *names = subprocess.check_output([sys.executable, "-c", probe], text=True).split()
    assert there == "True"
    assert {name for name in names if name.startswith("privbench")} <= {"privbench"}
    assert not {"click", "lazy_loader", "numpy", "pyarrow", "rich"} & {*names}


def test_lists_of_commands_fit_80_columns_and_a_slip_is_understood():
    for words in ((), ("workload",), ("ledger",)):
        assert "..." not in run(*words, "--help").output.partition("Commands:")[2], words
    for slip, meant in (
        ("plann", "plan"),
        ("workload genrate", "generate"),
        ("fit --epsilo", "--epsilon"),
    ):
        assert re.search(f"Did you mean.* '{meant}'", run(*slip.split()).stderr)


PLUGIN = """
import click

@click.command()
@click.option("--times", type=int, default=1)
def hello(times):
    "Say hello."
    click.echo("hello " * times)
"""
#: Modules of another package, and the commands that it names.
MODULES = {
    "outside_good": PLUGIN,
    "outside_exit": "raise SystemExit(0)",
    "outside_bad": "import no",
}
COMMANDS = {
    "hello": "outside_good:hello",
    "fit": "outside_good:hello",
    "gone": "outside_bad:hello",
    "exits": "outside_exit:hello",
    "number": "outside_good:click",
}


@pytest.fixture(scope="module")
def plugged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugged")
    install(folder, "outside", {"privbench.commands": COMMANDS}, MODULES)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    for name in MODULES:
        sys.modules.pop(name, None)


def test_commands_of_other_packages_are_listed_and_run_but_take_no_name_of_ours(plugged):
    assert "outside_good" not in sys.modules
    shown = run("--help")
    assert shown.exit_code == 0
    assert "Say hello." in shown.output
    done = run("hello", "--times", "2")
    assert (done.exit_code, done.output) == (0, "hello hello \n")
    assert main.list_commands(click.Context(main)).count("fit") == 1
    assert "Learn a model" in run("fit", "--help").output


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gone", "ModuleNotFoundError"),
        ("exits", "SystemExit"),
        ("number", "it is no click.Command"),
    ],
)
def test_a_command_that_cannot_be_loaded_breaks_itself_alone(plugged, name, reason):
    shown = run("--help")
    assert shown.exit_code == 0
    said = f"annot be loaded: {reason}."
    assert re.search(rf"^  {name} +C{said}$", shown.output, re.MULTILINE)
    assert f"C{said}" in run(name, "--help").output
    done = run(name, "grid.toml", "-o", "out")
    assert done.exit_code == 5
    assert f"the command {name} c{said} Install outside again, or remove it." in done.stderr
