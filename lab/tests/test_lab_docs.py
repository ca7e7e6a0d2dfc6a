"""The lab's pages are what the program says."""

import re
from pathlib import Path

import click
import pytest
import test_house_docs as house
from docs_pages import commands, pages

from privbench import plugins, synthesizers
from privbench.cli import main
from privbench.config import Config

LAB = Path(__file__).parents[1]
COMMANDS = {name: item for name, item in commands(main) if name not in house.COMMANDS}


def test_readme_lists_every_command_and_synthesizer():
    rows = set(re.findall(r"^\| `([\w-]+)` \|", (LAB / "README.md").read_text("utf-8"), flags=re.M))
    own = {"independent", "privbench"}
    assert rows == {"audit", "bench"} | set(synthesizers.names()) - own
    assert set(plugins.names(plugins.COMMANDS)) == {"audit", "bench"}


def test_every_command_has_help_and_an_example_that_click_takes(parse_line):
    assert set(COMMANDS) == {"privbench audit", "privbench bench"}
    for command in COMMANDS.values():
        prose, example = house.parts(command)
        assert prose.endswith(".")
        for line in example.splitlines():
            parse_line(line)
        assert not [p.opts for p in command.params if isinstance(p, click.Option) and not p.help]


def test_the_generated_page_is_up_to_date():
    stored = (LAB / "docs" / "cli.md").read_text(encoding="utf-8")
    assert stored == pages()["lab/docs/cli.md"], "run scripts/docs"


def test_examples_of_the_literature_are_taken_by_their_synthesizers():
    blocks = house._blocks(LAB / "docs" / "literature.md", "toml")
    chosen = [Config.loads(block).synthesizer for block in blocks]
    assert {item.name for item in chosen} == {"dpspn", "bayesnet", "quail", "p3gm"}
    for item in chosen:
        given = synthesizers.get(item.name)(item.options).options.model_dump(exclude_unset=True)
        assert given.keys() == item.options.keys()


PROSE = ["workloads/README.md"]
PROSE += [f"lab/docs/{name}.md" for name in ("audit", "bench", "workloads")]


@pytest.mark.parametrize("page", PROSE)
def test_commands_in_prose_parse(page, parse_line):
    house.test_commands_in_prose_parse(page, parse_line)
