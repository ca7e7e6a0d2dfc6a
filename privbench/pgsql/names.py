"""Lists of functions, types and operators that only compute, which judged SQL may use.

The lists stand in ``names.json``, which ``scripts/sqlnames`` makes from servers of several major
versions. A name of `pg_catalog` is allowed if every function of that name computes its result from
its arguments, the clock or the session's locale. Volatility alone tells nothing: ``table_to_xml``
is stable. Every other name of `pg_catalog` is listed too, since ``(x).name`` can call a function.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from privbench.limits import UNFINISHED

#: Prefixes of schemas that are the server's own, and the schema that marks unfinished loads; models
#: have no tables there.
SYSTEM_SCHEMAS = ("pg_", "information_schema", UNFINISHED)
#: The function that advances a sequence; allowed only for sequences that the statements make.
NEXTVAL = "nextval"


@cache
def _name_lists() -> dict[str, Any]:
    lists: dict[str, Any] = json.loads((files("privbench.pgsql") / "names.json").read_text())
    return lists


@cache
def functions() -> frozenset[str]:
    """Return the names of functions of `pg_catalog` that may be called."""
    return frozenset(_name_lists()["functions"])


@cache
def others() -> frozenset[str]:
    """Return the names of all functions of `pg_catalog` that are not in `functions`.

    They are those of all known versions.
    """
    return frozenset(_name_lists()["others"])


@cache
def reading() -> frozenset[str]:
    """Return functions of `pg_catalog` that a workload may call, though a model's DDL may not.

    They return properties of the server and of the session; ``scripts/sqlnames`` says which, and
    why.
    """
    return frozenset(_name_lists()["reading"])


@cache
def counters(extension: str | None) -> frozenset[str]:
    """Return functions of an unlisted extension that only read counters of the server."""
    return frozenset(_name_lists()["counters"].get(extension, ()))


@cache
def running_texts() -> dict[str, str | None]:
    """Return functions that run the query in an argument, with their extension or None."""
    return dict(_name_lists()["texts"])


@cache
def extension(name: str) -> dict[str, frozenset[str]] | None:
    """Return the objects of a listed extension by kind (functions, types, …); None if unlisted.

    >>> "hstore" in extension("hstore")["types"], extension("dblink")
    (True, None)
    """
    objects = _name_lists()["extensions"].get(name)
    return None if objects is None else {kind: frozenset(names) for kind, names in objects.items()}


@cache
def extensions() -> frozenset[str]:
    """Return the names of the listed extensions."""
    return frozenset(_name_lists()["extensions"])


def may_call(field: str) -> bool:
    """Return whether ``(x).field`` could call a function of `pg_catalog` that may not be called so.

    A call of `NEXTVAL` in this form names no sequence that could be judged.
    """
    listed = functions() - {NEXTVAL}
    return field not in listed and (field in functions() | others() or field.startswith("pg_"))


def is_system(schema: str) -> bool:
    """Return whether a schema is the server's own, or reserved."""
    return schema.startswith(SYSTEM_SCHEMAS)
