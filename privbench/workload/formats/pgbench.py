r"""pgbench scripts: SQL with ``:name`` variables that ``\set`` lines draw.

A workload is one script, or a folder of scripts. In a folder the file ``pgbench.opts`` holds the
options for pgbench, one ``-f NAME@WEIGHT`` a line, so that ``pgbench -n $(cat pgbench.opts)`` runs
the workload; without that file every ``.sql`` and ``.pgbench`` script has weight 1. Each statement
becomes a query whose variables are bound once, by draws seeded with the names of file and variable.
"""

import ast
import logging
import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from statistics import fmean

from privbench.arrays import Rng
from privbench.errors import UsageError
from privbench.files import write_text
from privbench.limits import CLONE
from privbench.pgsql import SqlError, tokens
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
from privbench.workload.safety import fault

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
    if name == "random":
        low, high = map(math.trunc, values)
        return int(rng.integers(low, high, endpoint=True))
    return _FUNCTIONS[name](values)


_FUNCTIONS: dict[str, Callable[[list[Number]], Number]] = {
    "abs": lambda values: abs(values[0]) if len(values) == 1 else min([]),
    "greatest": max,
    "least": min,
}
_OPTIONS = "pgbench.opts"
_MARK = f"-- {CONFIDENTIAL}\n"
_HEAD = "-- For a clone, never for the source.\n"
#: Begins scripts that do more than read. It fails in a database whose comment is not that of a
#: clone, and both pgbench and psql then stop.
_GUARD = f"""\\set ON_ERROR_STOP 1
SELECT CASE WHEN pg_catalog.shobj_description(d.oid, 'pg_database') LIKE '%{CLONE}%' THEN 1
  ELSE ('no clone of privbench load: ' || d.datname)::int END
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database();
"""  # noqa: S608
#: Scripts that pgbench takes.
_MOST_SCRIPTS = 128
_SUFFIXES = frozenset({".sql", ".pgbench"})
#: Most characters of an expression, and of what a message shows of one; most variables of a script.
_LONGEST, _SHOWN, _MOST_VARIABLES = 1000, 100, 1000
_META = re.compile(r"[ \t]*\\(\w+)(.*)\Z")
# A backslash command with its continuation lines; comments before it remain part of the SQL.
_CONTINUED = re.compile(r"^[ \t]*\\\w(?:.*\\\n)*.*$", re.MULTILINE)
_FILE = re.compile(r"\s*(?:-f\s*|--file[= ]\s*)?(\S+?)(?:@(\d{1,9}))?\s*\Z")
# A variable as pgbench recognises it, also within strings; the colons of a cast are none.
_VARIABLE = re.compile(r"(?<!:):([A-Za-z_]\w*)")
_OWN_VARIABLES = frozenset({"ON_ERROR_STOP", "client_id", "default_seed", "random_seed", "scale"})
_DRAW = re.compile(r"[A-Za-z_]\w* = [^\r\n\0\\]+")
_PLACE = re.compile(r"\$\d+")


def _detects(path: Path) -> bool:
    r"""Whether it is a script with the suffix ``.pgbench`` or a ``\set``, or a folder of such."""
    if path.is_dir():
        return (path / _OPTIONS).is_file() or any(_detects(f) for f in _scripts(path))
    if path.suffix == ".pgbench" or path.name == _OPTIONS:
        return True
    if path.suffix != ".sql":
        return False
    return any(_META.match(line) and not COMMAND.match(line) for line in _script_lines(path))


def _read_scripts(path: Path) -> Workload:
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
    """Write a folder of weighted scripts; or all queries as one, if the path names a script.

    Queries whose ids differ behind a ``#`` are of one script, in order. Of too many scripts, some
    of about the same weight are one.
    """
    mark = (_MARK if workload.confidential else "") + _HEAD
    names = {item.partition(" = ")[0] for query in workload for item in query.draws}
    scripts, weights = dict[str, list[str]](), dict[str, float]()
    drawn, writing = defaultdict[str, set[str]](set), set[str]()
    for query in workload:
        name = query.id.partition("#")[0] or query.id
        try:
            script = _script(query, names | _OWN_VARIABLES, drawn[name])
            scripts.setdefault(name, []).append(script)
            weights.setdefault(name, query.weight)
            writing |= {name} if fault(_PLACE.sub("0", _sent(query)[0])) else set()
        except UsageError as error:
            logging.getLogger(__name__).warning("left out: %s", error.message)
    if not scripts:
        raise UsageError("pgbench can run no query of the workload.")
    if path.suffix in _SUFFIXES:
        write_text(path, mark + _GUARD * bool(writing) + "".join(chain(*scripts.values())))
        return
    path.mkdir(parents=True, exist_ok=True)
    options, files = [], _together(weights)
    means = _integer_weights([fmean(weights[member] for member in files[name]) for name in files])
    for (name, members), weight in zip(files.items(), means, strict=True):
        script = _GUARD * bool(writing.intersection(members)) + "".join(
            chain(*(scripts[member] for member in members))
        )
        file = inside(path, f"{name}.sql")
        if re.search(r"[\s@*?\[]", name):
            raise UsageError(f"the id {name!r} is no name of a pgbench script.")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, mark + script)
        options.append(f"-f {name}.sql@{weight}\n")
    write_text(path / _OPTIONS, "".join(options))


def _together(weights: Mapping[str, float]) -> dict[str, list[str]]:
    """The scripts that are one file, by the first of them: no more files than pgbench takes."""
    if len(weights) <= _MOST_SCRIPTS:
        return {name: [name] for name in weights}
    rounded = {name: f"{weight:.1g}" for name, weight in weights.items()}
    parts = max(1, _MOST_SCRIPTS // len({*rounded.values()}))
    counts, first = Counter[str](), dict[tuple[str, int], list[str]]()
    for name, weight in rounded.items():
        first.setdefault((weight, counts[weight] % parts), []).append(name)
        counts[weight] += 1
    return {members[0]: members for members in first.values()}


def _script_lines(path: Path) -> list[str]:
    text = read_text(path).removeprefix(_MARK).removeprefix(_HEAD).removeprefix(_GUARD)
    return text.split("\n")


def _scripts(root: Path) -> list[Path]:
    """All scripts of a folder in natural order."""
    scripts = [file for file in root.rglob("*") if file.suffix in _SUFFIXES and file.is_file()]
    return sorted(scripts, key=lambda file: natural(file.relative_to(root)))


def _files(root: Path) -> list[tuple[Path, float]]:
    """The scripts of a folder with their weights."""
    options = root / _OPTIONS
    if not options.is_file():
        return [(file, 1.0) for file in _scripts(root)]
    files = []
    for line in _script_lines(options):
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
    text = "\n".join(_script_lines(file)).replace("\r\n", "\n")
    start, line = 0, 1 + len(read_text(file).split("\n")) - len(text.split("\n"))
    for command in [*_CONTINUED.finditer(text), None]:
        end = command.start() if command else len(text)
        for after, piece in cut(text[start:end], file):
            yield dict(draws), piece, f"{file}:{line + after}"
        meta = command and _META.match(command[0].replace("\\\n", ""))
        if command is None or meta is None:
            return
        line += text.count("\n", start, command.end())
        start = command.end()
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
    names = set(_VARIABLE.findall(text))
    for name in reversed(draws):
        if name in names:
            names.update(_VARIABLE.findall(draws[name]))
    return {name: expression for name, expression in draws.items() if name in names}


def _script(query: WorkloadQuery, names: Collection[str], drawn: set[str]) -> str:
    r"""The query's ``\set`` lines and text, which holds no variable of other ``names``.

    The script's lines so far, ``drawn``, are not drawn again.

    pgbench's scanner is psql's: a backslash that is in no string, name or comment begins a command,
    and a semicolon in parentheses ends nothing.
    """
    text, variables = _sent(query)
    if clashing := {*names}.intersection(_VARIABLE.findall(text)):
        raise beyond(query, "pgbench", f"it holds :{min(clashing)}, a variable of pgbench")
    places = {f"${place}": f":{name}" for place, name in enumerate(variables, 1)}
    text = _PLACE.sub(lambda found: places.get(found[0], found[0]), text)
    depth, kinds = 0, {"PARAM"}
    with suppress(SqlError):
        words = [word.kind for word in tokens(text)]
        kinds = {*words, *("PARAM" for item in query.draws if not _DRAW.fullmatch(item))}
        for kind in words:
            depth += (kind == "ASCII_40") - (kind == "ASCII_41" and depth > 0)
    if depth or kinds & {"PARAM", "ASCII_92"}:
        raise beyond(query, "pgbench", "it would not be sent as it stands")
    draws = query.draws if variables else ()
    sets = [f"\\set {item.replace(' = ', ' ', 1)}\n" for item in draws if item != f"{SCALE} = 1"]
    new = [item for item in sets if item not in drawn]
    drawn.update(new)
    return "".join([*new, f"{ended(text)}\n"])


def _sent(query: WorkloadQuery) -> tuple[str, list[str]]:
    """The text that a script has of a query, and the variables that stand for its places.

    A stranger's template need not have to do with the text that is judged before a replay.
    """
    drawn = [item.partition(" = ")[0] for item in query.draws]
    if query.template is None or not drawn or len(drawn) != len(query.parameters):
        return query.sql, []
    return query.template, drawn


def _integer_weights(weights: Sequence[float]) -> list[int]:
    """The weights, scaled to whole numbers that pgbench takes."""
    least = min(weights) if any(weight % 1 for weight in weights) else 100
    scale = min(100 / least, (10**9 - 1) / max(weights))
    return [max(1, round(weight * scale)) for weight in weights]


FORMAT = WorkloadFormat("pgbench", _detects, _read_scripts, _write)
