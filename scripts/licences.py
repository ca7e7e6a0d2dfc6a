"""Writes ``docs/licences.md`` from the metadata of the packages that are installed here.

scripts/docs runs it, in the environment of the tests, which has the packages of all extras.
"""

import tomllib
from collections.abc import Iterable
from importlib.metadata import metadata, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "licences.md"
#: Extras of those who work on the project: what they bring is in no user's installation.
_INNER = {"site", "test"}
#: Longest field "License" that is a name; in some packages it is the whole text.
_LONGEST = 40
_INTRO = """\
# Licences

<!-- Written by scripts/docs from the metadata of installed packages. Do not edit. -->

privbench and privbench-lab are under the Apache License 2.0. An installation with all extras brings
these packages, each under a licence of its own, as its metadata names it. Versions and checksums
of a release are in its [bill of materials](operate.md#what-a-release-consists-of).

psycopg, the one package under a copyleft licence that every installation needs, is used as it
comes: it is imported, not changed, and another version can take its place.

| package | licence | needed by |
|---|---|---|"""


def page() -> str:
    """The licence of every package that an installation with all extras holds, as Markdown."""
    rows = (f"| {name} | {licence(name)} | {', '.join(by)} |" for name, by in sorted(needed()))
    return "\n".join([_INTRO, *rows, ""])


def needed() -> Iterable[tuple[str, list[str]]]:
    """Every package that an installation with all extras holds, and what needs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = sorted(project["optional-dependencies"].items())
    waiting = [(text, "privbench") for text in project["dependencies"]]
    waiting += [(text, f"`[{name}]`") for name, e in extras if name not in _INNER for text in e]
    users: dict[str, list[str]] = {}
    for text, user in waiting:  # which grows
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name not in users:
            waiting += [(own, name) for own in _requires(name, requirement.extras)]
        if user not in users.setdefault(name, []):
            users[name].append(user)
    return users.items()


def _requires(name: str, extras: Iterable[str]) -> list[str]:
    """What a package with these extras requires in this environment."""
    return [
        text
        for text in requires(name) or ()
        if (marker := Requirement(text).marker) is None
        or any(marker.evaluate({"extra": extra}) for extra in extras or [""])
    ]


def licence(name: str) -> str:
    """The licence that a package's metadata names, an SPDX expression where it holds one."""
    about = metadata(name)
    written = about.get("License") or ""
    classes = [c for c in about.get_all("Classifier") or () if c.startswith("License ::")]
    return (
        about.get("License-Expression")
        or (written if len(written) < _LONGEST and "\n" not in written else "")
        or ", ".join(text.rpartition(" :: ")[2] for text in classes)
        or "not named"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
