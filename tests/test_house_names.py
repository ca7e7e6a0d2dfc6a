"""One name stands for one thing: no class, alias or module of the core shares its name."""

import ast
import re
from collections import defaultdict
from pathlib import Path

CORE = Path(__file__).parents[1] / "privbench"
#: Names that still stand in several homes; the list may only become shorter. `Column` stays: as an
#: axis of queries it is printed into the fingerprints of events.
SHARED = {"Column"}
SHARED_MODULES = set("base columns computed database model references".split())


def _homes() -> dict[str, list[str]]:
    """The places of every public class, and of every alias of a type, by its name."""
    homes = defaultdict(list)
    for path in CORE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        names += [
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][a-z]\w*", target.id)
        ]
        for name in names:
            homes[name].append(f"{path.relative_to(CORE)}")
    return homes


def test_no_two_classes_or_aliases_share_a_name():
    shared = {name: places for name, places in _homes().items() if len(places) > 1}
    private = {name for name in shared if name.startswith("_")}
    assert not {name: shared[name] for name in shared.keys() - SHARED - private}


def test_no_module_name_stands_three_times():
    places = defaultdict(list)
    for path in CORE.rglob("*.py"):
        places[path.stem].append(f"{path.relative_to(CORE)}")
    often = {name for name, some in places.items() if len(some) > 2 and name != "__init__"}
    assert not {name: places[name] for name in often - SHARED_MODULES}
