"""The page ``docs/mechanisms.md``: what stands for each measurement, from code and tests."""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from privbench.privacy import queries
from privbench.privacy.mechanisms import MECHANISMS, SELECTION, THRESHOLD, VECTOR
from privbench.privacy.query import Query
from privbench.privacy.spec import DatabaseSpec, KeySpec, Relation, TableSpec

ROOT = Path(__file__).parents[1]

_INTRO = """\
# Mechanisms, and what stands for each

<!-- Written by scripts/docs from the code and its tests. Do not edit. -->

For auditors: everything that a release tells of private rows is one of the *measurements* below,
with noise of one of the *noise mechanisms*. Words are those of the [glossary](glossary.md); what is
promised stands in [privacy](privacy.md). This page is made from the code and from the tests. A test
fails if it is not up to date, or where a measurement has no proof, no place in the harness, or no
wrong version that the harness rejects. All are part of version 0.1.0, the first. On the site, the
end of the page says by which commit each file was last changed.

How to read it: the *proof* is the docstring of the class, under "Sensitivity"; on the site it
stands at the end of the page. The [harness](../tests/privacy/harness.py) removes and replaces units
in small databases full of rows that break every constraint, and compares the exact change of the
statistic with the claim, in L1, L2, L∞ and L0. A *mutant* is a wrong version of the statistic or of
its claim, which the harness has to reject: it shows that the harness can see such a fault. The same
replay runs on a database of your own by [`privbench audit`](../lab/docs/audit.md). The rules are
those [by number](privacy.md#rules-by-number). What synthesizers of papers measure besides is in
[the lab](../lab/docs/stability.md)."""

#: Noise mechanisms of each task by accounting; names of tests begin with that of the task.
_TASKS = {"vector": VECTOR, "selection": SELECTION, "threshold": THRESHOLD}
_TEST_FOLDERS = ("tests", "tests/privacy", "lab/privbench_lab/neighbours")


def mechanisms_page() -> str:
    """Every noise mechanism, measurement and axis, with its proof, harness and mutants."""
    rows = measurements()
    lines = [_INTRO, "## Noise mechanisms", *_noise_tables()]
    lines += ["## Measurements", _measurement_table(rows)]
    lines += ["## Wrong versions that the harness rejects", _mutant_list(rows)]
    lines += ["## Axes", _AXES_INTRO, _axis_table()]
    lines += ["## Proofs", "On the site this section has the docstring of every measurement."]
    options = "    options:\n      members: false\n      heading_level: 3"
    lines += [f"::: privbench.privacy.queries.{kind.__name__}\n{options}" for kind in rows]
    return "\n\n".join(lines) + "\n"


def measurements() -> dict[type[Query], list[str]]:
    """Every class of queries, with the names of the mutants of it that the harness rejects."""
    kinds = [item for item in _exported() if issubclass(item, Query)]
    rejected: dict[type[Query], list[str]] = defaultdict(list)
    for mutant in _mutants():
        rejected[type(mutant.sound(mutant.database()))].append(str(mutant))
    return {kind: list(dict.fromkeys(rejected[kind])) for kind in kinds}


def in_harness() -> dict[type, set[str]]:
    """Classes of queries and axes of which the harness has instances, with the kinds of queries.

    The instances are those for a root table, one that it owns with a key of every role, and one
    below that.
    """
    _import_from(*_TEST_FOLDERS)
    from small_databases import fill, settled
    from small_databases import queries as instances

    own, deep = KeySpec("own", "b", "a", "own"), KeySpec("own", "c", "b", "own")
    others = (KeySpec("ref", "b", "a", "ref"), KeySpec("pub", "b", "public", "public"))
    keys = {"a": (), "b": (own, *others), "c": (deep,)}
    spec = DatabaseSpec({name: TableSpec(name, {}, own) for name, own in keys.items()}, Relation())
    seen: dict[type, set[str]] = defaultdict(set)
    waiting: list[Any] = list(instances(settled(fill(spec, 5, 0)).spec))
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(item)
        elif is_dataclass(item):
            seen[type(item)].add(str(getattr(item, "kind", "")))
            waiting.extend(getattr(item, field.name) for field in fields(item))
    return seen


def _exported() -> list[type]:
    named = [getattr(queries, name) for name in queries.__all__]
    return [item for item in named if isinstance(item, type)]


def _mutants() -> list[Any]:
    _import_from(*_TEST_FOLDERS)
    from test_privacy_mutants import mutants

    return list(mutants)


def _import_from(*folders: str) -> None:
    sys.path += [path for path in (str(ROOT / name) for name in folders) if path not in sys.path]


def _place(item: type) -> str:
    """A link from `docs/` to the file that defines a class."""
    file = Path(inspect.getfile(item)).relative_to(ROOT)
    return f"[{file.name}](../{file})"


def _summary(item: type) -> str:
    text = inspect.getdoc(item) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")


def _noise_tables() -> Iterator[str]:
    file = "test_privacy_mechanisms.py"
    tests = re.findall(
        r"^def (test_\w+)", (ROOT / "tests" / "privacy" / file).read_text(encoding="utf-8"), re.M
    )
    rows = ["| name | loss | what it does | file | tests of its law |", "|---|---|---|---|---|"]
    for task, family in _TASKS.items():
        law = ", ".join(f"`{name}`" for name in tests if name.startswith(f"test_{task}_"))
        for mechanism in family.values():
            kind, loss = type(mechanism), {"epsilon": "ε", "rho": "ρ"}[mechanism.loss]
            assert MECHANISMS[mechanism.name] is mechanism
            rows.append(
                f"| `{mechanism.name}` | {loss} | {_summary(kind)} | {_place(kind)} | {law} |"
            )
    yield "\n".join(rows)
    yield (
        f"The tests are in [{file}](../tests/privacy/{file}): tens of thousands of draws against\n"
        "the stated law, where half of the scale has to be rejected. Prices are OpenDP's own\n"
        "privacy maps, compared with Google's dp_accounting in\n"
        "[test_privacy_accountant.py](../tests/privacy/test_privacy_accountant.py)."
    )


def _measurement_table(rows: dict[type[Query], list[str]]) -> str:
    lines = ["| class | in the ledger | what it measures | file | rules | harness | mutants |"]
    lines.append("|---|---|---|---|---|---|---|")
    known = in_harness()
    for kind, rejected in rows.items():
        name, text = kind.__name__, inspect.getdoc(kind) or ""
        kinds = ", ".join(sorted(known[kind]))
        rules = ", ".join(
            sorted(set(re.findall(r"\bP[1-9]\d?\b", text)), key=lambda rule: int(rule[1:]))
        )
        lines.append(
            f"| `{name}` | {kinds} | {_summary(kind)} | {_place(kind)} | {rules} | "
            f"{'yes' if kind in known else '**no**'} | {len(rejected)} |"
        )
    return "\n".join(lines)


def _mutant_list(rows: dict[type[Query], list[str]]) -> str:
    file = "test_privacy_mutants.py"
    intro = f"In [{file}](../tests/privacy/{file}), whose names say what is wrong."
    items = [
        f"- `{kind.__name__}`: " + ", ".join(name.replace("_", " ") for name in rejected)
        for kind, rejected in rows.items()
    ]
    return "\n".join([intro, "", *items])


_AXES_INTRO = """\
A histogram counts rows by axes. Each axis reads the row itself and other rows of its own unit along
OWN keys, and never another unit's rows. So a row keeps its cell when another unit goes, and a
histogram over any axes has the sensitivity of its table's weights."""


def _axis_table() -> str:
    lines = ["| class | what it is | file | harness |", "|---|---|---|---|"]
    known = in_harness()
    for kind in _exported():
        if issubclass(kind, queries.Axis) and kind is not queries.Axis:
            harness = "yes" if kind in known else "**no**"
            lines.append(f"| `{kind.__name__}` | {_summary(kind)} | {_place(kind)} | {harness} |")
    return "\n".join(lines)
