"""The documentation is what the program says: no command without help, no stale page."""

import ast
import inspect
import re
import shlex
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from privbench import pipeline, plugins, report
from privbench.cli import main
from privbench.config import Config, json_schema
from privbench.options import CompareOptions, LoadOptions, ReplayOptions

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from docs_pages import commands, pages, parts, settings  # noqa: E402
from mechanisms_page import in_harness, measurements  # noqa: E402

#: What other packages add has pages and tests of its own.
ADDED = plugins.names(plugins.COMMANDS)
COMMANDS = {name: item for name, item in commands(main) if name.split()[1] not in ADDED}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example_that_click_takes(name, parse_line):
    command = COMMANDS[name]
    prose, example = parts(command)
    assert prose.endswith(".")
    assert example
    if not isinstance(command, click.Group):
        assert example.startswith(name + " ") or example == name
    for line in example.splitlines():
        parse_line(line)
    options = [item for item in command.params if isinstance(item, click.Option)]
    assert not [option.opts for option in options if not option.help]


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_commands_print_their_help(flag):
    for name in ("privbench", *COMMANDS):
        shown = CliRunner().invoke(main, [*name.split()[1:], flag])
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert re.search(r"Example:\n\s+privbench \S", shown.stdout), name


@pytest.mark.parametrize("name", ["docs/cli.md", "docs/configuration.md", "docs/mechanisms.md"])
def test_generated_pages_are_up_to_date(name):
    stored = (ROOT / name).read_text(encoding="utf-8")
    assert stored == pages()[name], "run scripts/docs"


def test_every_setting_is_explained():
    silent = [
        f"{section}.{name}"
        for section, definition in json_schema()["$defs"].items()
        for name in definition.get("properties", ())
        if section != "Config" and not settings(definition).get(name)
    ]
    assert not silent


def test_the_page_of_plugins_lists_every_synthesizer():
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z]+)` \|", text, flags=re.M)) == {"independent", "privbench"}


def test_every_measurement_has_a_proof_a_place_in_the_harness_and_a_wrong_version():
    known = in_harness()
    for kind, rejected in measurements().items():
        assert "Sensitivity" in (kind.__doc__ or ""), kind
        assert kind in known, kind
        assert rejected, kind


def _blocks(path: Path, language: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)


@pytest.mark.parametrize("page", ["docs/howto/choose-roles.md", "docs/configuration.md"])
def test_config_examples_load(page):
    blocks = _blocks(ROOT / page, "toml")
    assert blocks
    for block in blocks:
        assert Config.loads(block).tables


OF_THE_LAB_PAGES = [str(page.relative_to(ROOT)) for page in (ROOT / "lab/docs").glob("*.md")]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
PAGES += [f"{folder}/README.md" for folder in ("benchmarks", "lab", "schemas", "workloads")]
PAGES += [str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))]


# One page has formats of the lab, whose tests parse it.
@pytest.mark.parametrize("page", [page for page in PAGES if page != "workloads/README.md"])
def test_commands_in_prose_parse(page, parse_line):
    """Those of the lab's commands where the lab is installed."""
    blocks = [text for kind in ("bash", "sh", "yaml") for text in _blocks(ROOT / page, kind)]
    joined = "\n".join(blocks).replace("\\\n", " ")
    lines = [line.strip().removeprefix("- run: ") for line in joined.splitlines()]
    for line in lines:
        if line.startswith("privbench "):
            parse_line(line)
        elif line.startswith(("scripts/", "./scripts/")):
            assert (ROOT / line.split()[0]).is_file()


@pytest.mark.parametrize("page", PAGES)
def test_commands_within_sentences_have_these_options(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.S)
    for line in re.findall(r"`privbench (?:-v )?([a-z][^`]*)`", text):
        words = shlex.split(line.partition(" -- ")[0])
        if words[0] in ("audit", "bench"):  # the lab's
            continue
        names = [name for name in COMMANDS if f"privbench {line} ".startswith(f"{name} ")]
        assert names, line
        parameters = COMMANDS[max(names, key=len)].params
        options = {name for item in parameters for name in (*item.opts, *item.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.match(r"-[-\w]", word)}
        assert used - {"--help"} <= options, line


def test_python_example_calls_what_is_there():
    (block,) = _blocks(ROOT / "docs/python.md", "python")
    found = [
        node
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("pipeline.")
    ]
    assert found
    for call in found:
        function = getattr(pipeline, ast.unparse(call.func).removeprefix("pipeline."))
        names = [keyword.arg for keyword in call.keywords]
        inspect.signature(function).bind(*call.args, **dict.fromkeys(names))


@pytest.mark.parametrize(
    ("command", "function", "kind"),
    [
        ("load", pipeline.load, LoadOptions),
        ("run", pipeline.run, ReplayOptions),
        ("compare", report.compare, CompareOptions),
    ],
)
def test_fields_are_the_options_of_command_and_function(command, function, kind):
    """Defaults too; ``run`` has no second side to run a floor on."""
    here = {item.name: item for item in fields(kind)}
    named = inspect.signature(function).parameters
    assert {name: named[name].default for name in here} == {
        name: item.default for name, item in here.items()
    }
    options = {option.name: option for option in COMMANDS[f"privbench {command}"].params}
    for name in here.keys() - ({"floor"} if command == "run" else set()):
        assert options[name].help == here[name].metadata["help"]
        assert options[name].default == here[name].default


@pytest.mark.parametrize("page", [*PAGES, *OF_THE_LAB_PAGES])
def test_links_lead_somewhere(page):
    """To a file of the checkout, and to a heading of it as GitHub names its anchors."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)]*)\)", text):
        place = ROOT / page if not link else (ROOT / page).parent / link
        assert place.exists(), link
        assert not anchor or anchor in _anchors(place.resolve()), f"{link}#{anchor}"


@cache
def _anchors(page: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    titles = re.findall(r"^#+ (.+)", text, flags=re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


def test_every_page_is_in_the_navigation_and_in_the_index():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in PAGES:
        name = page.removeprefix("docs/")
        if page.startswith("docs/") and (not name.startswith("adr/") or name == "adr/README.md"):
            assert f": {name}\n" in navigation, name
            assert f"({name})" in index or name == "index.md", name


def test_privacy_page_states_every_rule_that_is_cited_by_number():
    stated = set(re.findall(r"^\| (P\d+) \|", (ROOT / "docs/privacy.md").read_text("utf-8"), re.M))
    cited = {
        rule
        for folder in ("privbench", "lab", "tests", "docs")
        for kind in ("*.py", "*.md")
        for path in (ROOT / folder).rglob(kind)
        for rule in re.findall(r"\bP[1-9]\d?\b", path.read_text("utf-8"))
    }
    assert cited == stated, "docs/privacy.md, Rules by number"
