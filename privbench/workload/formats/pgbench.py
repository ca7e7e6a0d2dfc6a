r"""pgbench scripts: SQL with ``:name`` variables that ``\set`` lines draw.

A workload is one script, or a folder of scripts. In a folder the file ``pgbench.opts`` holds the
options for pgbench, one ``-f NAME@WEIGHT`` a line, so that ``pgbench -n $(cat pgbench.opts)`` runs
the workload; without that file every ``.sql`` and ``.pgbench`` script has weight 1. Each statement
becomes a query whose variables are bound once, by draws seeded with the names of file and variable.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from privbench.arrays import Rng
from privbench.errors import UsageError
from privbench.files import write_text
from privbench.rng import generator
from privbench.workload.formats.base import (
    CONFIDENTIAL,
    WorkloadFormat,
    beyond,
    cut,
    query_id,
    read_text,
    whole,
)
from privbench.workload.formats.sql_files import COMMAND, ended, inside, natural
from privbench.workload.query import Workload, WorkloadQuery

#: pgbench's variable for ``-s``; 1 unless a script sets it.
SCALE = "scale"

Number = int | float

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    # pgbench rounds quotients of whole numbers towards zero.
    ast.Div: lambda a, b: math.trunc(a / b) if isinstance(a, int) and isinstance(b, int) else a / b,
    ast.Mod: lambda a, b: math.trunc(math.fmod(a, b)),
}


def draw(expression: str, values: Mapping[str, str], *labels: str) -> str:
    r"""The value, as SQL, of the expression after the variable's name in a ``\set`` line.

    Allowed are arithmetic of integers and floats, variables that were set before (``values``),
    ``random``, ``abs``, ``greatest`` and ``least``; other expressions of pgbench are refused. These
    are written as in Python, whose parser reads them. The same labels give the same value.

    >>> draw("10 * :scale + 1", {"scale": "3"})
    '31'
    >>> 1 <= int(draw("random(1, 6)", {}, "q1", "x")) <= 6
    True
    """
    rng = generator(0, "pgbench", *labels)
    try:
        if len(expression) > _LONGEST:
            raise ValueError
        bound = _VARIABLE.sub(lambda found: f"({values[found[1]]})", expression)
        return str(_value(ast.parse(bound.strip(), mode="eval").body, rng))
    except (SyntaxError, ArithmeticError, ValueError, KeyError, RecursionError, MemoryError):
        raise UsageError(
            f"the variable drawn by {expression[:_SHOWN]!r} cannot be drawn here.",
            remedy="Use numbers, + - * / %, variables set before, random, abs, greatest and least.",
        ) from None


def _value(node: ast.expr, rng: Rng) -> Number:
    """The value of an expression; integers have 64 bits, as in pgbench, and floats are finite."""
    value = _computed(node, rng)
    if not (-(2**63) <= value < 2**63 if isinstance(value, int) else math.isfinite(value)):
        raise ValueError
    return value


def _computed(node: ast.expr, rng: Rng) -> Number:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        value = _value(node.operand, rng)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, rng), _value(node.right, rng))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id.lower(), [_value(part, rng) for part in node.args], rng)
    raise ValueError


def _called(name: str, values: list[Number], rng: Rng) -> Number:
    if name == "random" and len(values) == 2:
        low, high = (math.trunc(value) for value in values)
        return int(rng.integers(low, high, endpoint=True))
    if name == "abs" and len(values) == 1:
        return abs(values[0])
    if name in ("greatest", "least") and values:
        return max(values) if name == "greatest" else min(values)
    raise ValueError


_OPTIONS = "pgbench.opts"
_MARK = f"-- {CONFIDENTIAL}\n"
_SUFFIXES = frozenset({".sql", ".pgbench"})
#: Most characters of an expression, and of what a message shows of one; most variables of a script.
_LONGEST, _SHOWN, _MOST_VARIABLES = 1000, 100, 1000
_META = re.compile(r"[ \t]*\\(\w+)(.*)\Z")
# A backslash command with its continuation lines; comments before it remain part of the SQL.
_CONTINUED = re.compile(r"^[ \t]*\\\w(?:.*\\\n)*.*$", re.MULTILINE)
_FILE = re.compile(r"\s*(?:-f\s*|--file[= ]\s*)?(\S+?)(?:@(\d{1,9}))?\s*\Z")
# A variable as pgbench recognises it, also within strings; the colons of a cast are none.
_VARIABLE = re.compile(r"(?<!:):([A-Za-z_]\w*)")
_OWN_VARIABLES = frozenset({"client_id", "default_seed", "random_seed", "scale"})
_PLACE = re.compile(r"\$\d+")


def _detects(path: Path) -> bool:
    r"""Whether it is a script with the suffix ``.pgbench`` or a ``\set``, or a folder of such."""
    if path.is_dir():
        return (path / _OPTIONS).is_file() or any(_detects(f) for f in _scripts(path))
    if path.suffix == ".pgbench" or path.name == _OPTIONS:
        return True
    if path.suffix != ".sql":
        return False
    return any(_META.match(line) and not COMMAND.match(line) for line in _text(path))


def _read(path: Path) -> Workload:
    """Read every statement of every script; `query_id` makes the ids."""
    if path.name == _OPTIONS:
        path = path.parent
    root = path if path.is_dir() else path.parent
    files = _files(path) if path.is_dir() else [(path, 1.0)]
    queries = (
        _bound(query_id(file, root, number), text, draws, weight, place)
        for file, weight in files
        for number, (draws, text, place) in enumerate(_statements(file), 1)
    )
    return whole(path, [file for file, _ in files], queries)


def _write(workload: Workload, path: Path) -> None:
    """Write a folder of weighted scripts, one per query; or one script if the path names one."""
    scripts = {query.id: _script(query) for query in workload}
    mark = _MARK if workload.confidential else ""
    if path.suffix in _SUFFIXES:
        if len(scripts) != 1:
            raise UsageError(
                f"a single pgbench script holds one query, and the workload has {len(scripts)}.",
                remedy="Name a folder: it gets one script for each query, and their weights.",
            )
        write_text(path, mark + "".join(scripts.values()))
        return
    path.mkdir(parents=True, exist_ok=True)
    weights = _whole(workload.queries)
    options = []
    for (name, script), weight in zip(scripts.items(), weights, strict=True):
        file = inside(path, f"{name}.sql")
        if re.search(r"[\s@]", name):
            raise UsageError(f"the id {name!r} is no name of a pgbench script.")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, mark + script)
        options.append(f"-f {name}.sql@{weight}\n")
    write_text(path / _OPTIONS, "".join(options))


def _text(path: Path) -> list[str]:
    return read_text(path).removeprefix(_MARK).split("\n")


def _scripts(root: Path) -> list[Path]:
    """All scripts of a folder in natural order."""
    found = [file for file in root.rglob("*") if file.suffix in _SUFFIXES and file.is_file()]
    return sorted(found, key=lambda file: natural(file.relative_to(root)))


def _files(root: Path) -> list[tuple[Path, float]]:
    """The scripts of a folder with their weights."""
    options = root / _OPTIONS
    if not options.is_file():
        return [(file, 1.0) for file in _scripts(root)]
    files = []
    for line in _text(options):
        item = _FILE.match(line)
        if item is None:
            continue
        inside(root, item[1])  # Scripts that lie elsewhere are refused.
        file = root / item[1]
        if not file.is_file():
            raise UsageError(f"{options} names {item[1]}, which is not there.")
        if item[2] != "0":
            files.append((file, float(item[2] or 1)))
    return files


def _statements(file: Path) -> Iterator[tuple[dict[str, str], str, str]]:
    r"""Each statement with the variables that are set before it, and its file and line."""
    draws: dict[str, str] = {}
    block: list[str] = []
    text = "\n".join(_text(file)).replace("\r\n", "\n")
    joined = _CONTINUED.sub(_joined, text)
    first = 1 + len(read_text(file).split("\n")) - len(text.split("\n"))
    for number, line in enumerate([*joined.split("\n"), "\\set privbench_end 0"], first):
        meta = _META.match(line)
        if meta is None:
            block.append(line)
            continue
        for after, text in cut("\n".join(block), file):
            yield dict(draws), text, f"{file}:{number - len(block) + after}"
        block = []
        if meta[1] != "set":
            raise UsageError(
                f"the script {file} has \\{meta[1]}, which only pgbench can run.",
                remedy="Scripts of SQL and \\set are read.",
            )
        name, value = [*meta[2].split(maxsplit=1), "", ""][:2]
        if not re.fullmatch(r"\w+", name) or not value or value.rstrip().endswith("\\"):
            raise UsageError(f"the script {file} has a \\set without a variable and its value.")
        if name in draws:
            raise UsageError(f"the script {file} sets {name} twice.")
        if len(draws) == _MOST_VARIABLES:
            raise UsageError(f"the script {file} sets more than {_MOST_VARIABLES:,} variables.")
        draws[name] = value.rstrip()


def _joined(found: re.Match[str]) -> str:
    """A command on one line, and empty lines in the place of those that continued it."""
    return found[0].replace("\\\n", "") + "\n" * found[0].count("\\\n")


def _bound(name: str, text: str, draws: dict[str, str], weight: float, place: str) -> WorkloadQuery:
    """The query of a statement; each of its variables is drawn once."""
    needed = _needed(text, {SCALE: "1", **draws})
    if not needed:
        return WorkloadQuery(name, text, weight=weight, place=place)
    values: dict[str, str] = {}
    for variable, expression in needed.items():
        values[variable] = draw(expression, values, name, variable)
    order = {variable: f"${place}" for place, variable in enumerate(values, 1)}
    return WorkloadQuery(
        name,
        _VARIABLE.sub(lambda found: values.get(found[1], found[0]), text),
        weight=weight,
        template=_VARIABLE.sub(lambda found: order.get(found[1], found[0]), text),
        parameters=tuple(values.values()),
        draws=tuple(f"{variable} = {drawn}" for variable, drawn in needed.items()),
        place=place,
    )


def _needed(text: str, draws: dict[str, str]) -> dict[str, str]:
    """The variables in a statement, and those that their definitions depend on."""
    wanted = set(_VARIABLE.findall(text))
    for name in reversed(draws):
        if name in wanted:
            wanted.update(_VARIABLE.findall(draws[name]))
    return {name: expression for name, expression in draws.items() if name in wanted}


def _script(query: WorkloadQuery) -> str:
    r"""The query's ``\set`` lines and text."""
    names = [item.partition(" = ")[0] for item in query.draws]
    if query.template is None or not names or len(names) != len(query.parameters):
        taken = _OWN_VARIABLES.intersection(_VARIABLE.findall(query.sql))
        if taken:
            raise beyond(query, "pgbench", f"it holds :{min(taken)}, a variable of pgbench")
        return f"{ended(query.sql)}\n"
    places = {f"${place}": f":{name}" for place, name in enumerate(names, 1)}
    text = _PLACE.sub(lambda found: places.get(found[0], found[0]), query.template)
    sets = [item.replace(" = ", " ", 1) for item in query.draws if item != f"{SCALE} = 1"]
    return "".join(f"\\set {item}\n" for item in sets) + f"{ended(text)}\n"


def _whole(queries: Sequence[WorkloadQuery]) -> list[int]:
    """The weights of queries, scaled to whole numbers."""
    weights = [query.weight for query in queries]
    if all(weight == round(weight) for weight in weights):
        return [round(weight) for weight in weights]
    least = min(weights)
    return [max(1, round(100 * weight / least)) for weight in weights]


FORMAT = WorkloadFormat("pgbench", _detects, _read, _write)
