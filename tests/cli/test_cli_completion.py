"""Shells complete commands and options by the scripts that the documentation names."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from privbench.cli import main

ROOT = Path(__file__).parents[2]
#: How each shell asks its own completion for what may follow a line, its last word begun.
SHELLS = {
    "bash": """
eval "$SCRIPT"
COMP_WORDS=($LINE) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_privbench_completion privbench
printf '%s\\n' "${COMPREPLY[@]}"
""",
    "fish": 'echo $SCRIPT | source; complete --do-complete "$LINE"',
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("line", "known"),
    [("privbench ins", ["inspect"]), ("privbench workload g", ["generate"]),
     ("privbench fit --epsilon --se", ["--seed"])],
)  # fmt: skip
def test_commands_and_options_are_completed(shell, line, known, monkeypatch):
    words = line.split()
    monkeypatch.setenv("COMP_WORDS", line if shell == "fish" else " ".join(words))
    monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words) - 1))
    answer = get_completion_class(shell)(main, {}, "privbench", "_PRIVBENCH_COMPLETE").complete()
    assert re.findall(r"(?:plain[,\n])([\w-]+)", answer) == known


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_by_the_script_that_the_page_names(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} on the PATH")
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert f"_PRIVBENCH_COMPLETE={shell}_source privbench" in page
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    script = subprocess.check_output(
        ["privbench"], env={**environment, "_PRIVBENCH_COMPLETE": f"{shell}_source"}, text=True
    )
    answer = subprocess.check_output(
        [shell, "-c", SHELLS[shell]],
        env={**environment, "SCRIPT": script, "LINE": "privbench ledger sh"},
        text=True,
    )
    assert [line.split()[0] for line in answer.splitlines()] == ["show"]
