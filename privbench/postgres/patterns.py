"""Choose schemas and tables by names and patterns, as ``pg_dump`` does."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from privbench.errors import SchemaError
from privbench.schema import TableName

_TOKEN = re.compile(r'"((?:[^"]|"")*)"|(.)', re.DOTALL)
_WILD = {"*": ".*", "?": "."}


def choose(
    relations: Collection[TableName],
    known: Sequence[str],
    schemas: Sequence[str] | None = None,
    tables: Sequence[str | TableName] | None = None,
    exclude: Sequence[str | TableName] = (),
) -> tuple[tuple[str, ...], set[TableName], set[TableName]]:
    """Return the chosen schemas, the chosen relations, and those left out by name.

    A text is an exact name (``public.Order``, ``Odd Shop``) if there is such a name; else it is a
    pattern by the rules of psql and pg_dump: ``*`` is any text, ``?`` any character, capitals are
    folded, and within double quotes every character stands for itself. Unlike in psql, other signs
    of regular expressions stand for themselves. A pattern without a schema is matched in every
    chosen schema.

    Args:
        relations: All tables, views and materialised views of the ``known`` schemas.
        known: All schemas.
        schemas: Schemas; None means all.
        tables: Tables of these schemas; None means all. If tables are given, schemas without any of
            them are not chosen either.
        exclude: Tables that are left out, chosen or not.

    Raises:
        SchemaError: A pattern matches nothing, which might let in what was to be left out.
    """
    chosen = set(known if schemas is None else ())
    for pattern in schemas or ():
        fitting = [pattern] if pattern in known else [n for n in known if fits(pattern, n)]
        if not fitting:
            names = ", ".join(known)
            raise SchemaError(f"there is no schema {pattern!r}.", remedy=f"Schemas: {names}.")
        chosen.update(fitting)
    chosen_tables = {name for name in relations if name.schema in chosen}
    if tables is not None:
        chosen_tables = set(_all(tables, chosen_tables, "to choose"))
    left_out = set(_all(exclude, relations, "to leave out"))
    chosen_tables -= left_out
    if tables is not None:
        chosen = {name.schema for name in chosen_tables}
    return tuple(sorted(chosen)), chosen_tables, left_out


def fits(pattern: str, *name: str, folded: bool = True) -> bool:
    """Return whether a pattern matches the last parts of a name.

    With ``folded``, capitals in the pattern are folded as by pg_dump.

    >>> fits("ord*", "public", "orders"), fits('"ord*"', "public", "orders")
    (True, False)

    Raises:
        SchemaError: The pattern has more parts than the name.
    """
    parts = _parts(pattern, folded)
    if len(parts) > len(name):
        raise SchemaError(f"{pattern!r} is not a name.", remedy="Write schema.table.")
    pairs = zip(parts, name[-len(parts) :], strict=True)
    return all(re.fullmatch(part, text, re.DOTALL) for part, text in pairs)


def _all(
    patterns: Iterable[str | TableName], relations: Collection[TableName], purpose: str
) -> Iterator[TableName]:
    exact: dict[str | TableName, TableName] = {name: name for name in relations}
    exact |= {f"{name.schema}.{name.name}": name for name in relations}
    for pattern in patterns:
        if pattern in exact:
            yield exact[pattern]
            continue
        text = str(pattern)
        matching = [n for n in relations if fits(text, n.schema, n.name)]
        spelt = [n for n in relations if fits(text, n.schema, n.name, folded=False)]
        if not matching or not set(spelt) <= set(matching):
            fault = "may be either of two" if matching else "does not exist"
            quotes = [f'Capitals are folded: write "{n.name}" in double quotes.' for n in spelt]
            raise SchemaError(
                f"the table {purpose} {fault}.", table=text, remedy=next(iter(quotes), None)
            )
        yield from matching


@lru_cache(maxsize=1 << 10)
def _parts(pattern: str, folded: bool) -> tuple[str, ...]:
    """A regular expression for each part of a name."""
    parts = [""]
    for quoted, plain in _TOKEN.findall(pattern):
        if plain == ".":
            parts.append("")
        else:
            plain = plain.lower() if folded else plain
            parts[-1] += _WILD.get(plain) or re.escape(quoted.replace('""', '"') + plain)
    return tuple(parts)
