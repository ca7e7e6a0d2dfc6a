"""Cases of repairs as SQL files: a schema, rows that break its rules, and what must have become.

A case begins with ``-- case: title``, then its schema. ``-- rows: tables (columns)`` is followed
by a query that makes the rows of each, ``-- then:`` by queries of the clone, each with its answer:
``-->``, columns as Python writes them, rows apart by ``|``, or ``!`` and the name of an error.
``{deleted}`` in a query is the number of rows that went. In between may stand, as JSON, what was
``deleted`` and ``changed`` by table, the constraints that are ``loose``, the tables that are
``suspects``, and the first version of PostgreSQL (``since``) that knows such a schema. Every case
has a schema of its own, which ``public`` stands for: the cases of a file are loaded at once.
"""

import ast
import json
import re
from dataclasses import dataclass, field
from typing import Any

_DIRECTIVE = re.compile(r"-- (rows|deleted|changed|loose|suspects|since|then): ?(.*)")


@dataclass
class Case:
    """One case; `given` holds the directives in JSON."""

    title: str
    schema: str
    ddl: str = ""
    rows: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    then: list[tuple[str, str]] = field(default_factory=list)


def _case(text, schema):
    title, *lines = text.strip().splitlines()
    case, place, query = Case(title, schema), "ddl", ""
    for line in lines:
        found = _DIRECTIVE.fullmatch(line)
        if found and found[1] == "rows":
            tables, columns = re.fullmatch(r"([\w, ]+) \((.*)\)", found[2]).groups()
            place = tables
            case.rows[tables] = ([name.strip('"') for name in columns.split(", ")], "")
        elif found and found[1] == "then":
            place = "then"
        elif found:
            case.given[found[1]] = json.loads(found[2].replace("public.", f"{schema}."))
        elif line.startswith("--> "):
            case.then.append((query, line.removeprefix("--> ")))
            query = ""
        elif place == "then":
            query += line + "\n"
        elif place == "ddl":
            case.ddl += line + "\n"
        else:
            case.rows[place] = (case.rows[place][0], case.rows[place][1] + line + "\n")
    assert not query.strip(), f"{title}: a query without an answer"
    return case


def read(folder):
    """The cases of all files of a folder, by the file's name."""
    return {
        path.stem: [
            _case(part, f"case_{number}")
            for number, part in enumerate(path.read_text("utf-8").split("-- case: ")[1:])
        ]
        for path in sorted(folder.glob("*.sql"))
    }


def answer(text):
    """The rows that an answer says."""
    return [ast.literal_eval(f"({row},)") for row in text.split(" | ")]
