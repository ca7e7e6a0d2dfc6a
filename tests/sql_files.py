"""Texts of the tests in files: the folder ``sql`` beside a test holds schemas, rows and cases."""

import re
from pathlib import Path
from typing import Any

import pytest


def sql_of(test: str, name: str, **given: object) -> str:
    """The text of a file beside a test; ``{word}`` stands for what is given by that name.

    The file's name ends in ``.sql`` where nothing else is said.
    """
    path = Path(test).parent / "sql" / (name if "." in name else f"{name}.sql")
    text = path.read_text(encoding="utf-8")
    for word, value in given.items():
        text = text.replace(f"{{{word}}}", str(value))
    return text


def cases(test: str, name: str) -> list[tuple[str, str]]:
    """Title and text of each case of a file: a case begins with ``---`` and its title.

    ``\\u`` and four digits stand for a sign.
    """
    text = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), sql_of(test, name))
    parts = (part.split("\n", 1) for part in text.split("\n--- ")[1:])
    return [(title, body.strip("\n")) for title, body in parts]


def database_of(statements: str) -> Any:
    """A fixture for the tests of a file: DSN of a database of what the statements make."""

    @pytest.fixture(scope="module")
    def made(make_database):
        return make_database(statements)

    return made


#: Two tables of towns and persons who live there, with rows.
TOWNS = sql_of(__file__, "towns")
