"""Arrow tables and data frames as sources: values become texts, and a config declares their types.

No type is derived from values (PRIVACY P34): a column is text in the copy unless its type is
declared. The text of a value depends on this value alone, so a row never changes others.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pyarrow as pa

from privbench.config import Config, SourceConfig
from privbench.errors import UsageError


def texts(frame: Any) -> pa.Table:
    """Return a table, a frame or a mapping of columns as an Arrow table with texts as values.

    >>> texts({"n": [1, 2.0, None, True]})["n"].to_pylist()
    ['1', '2', None, 'true']
    """
    if not hasattr(frame, "items"):
        table = frame if isinstance(frame, pa.Table) else pa.table(frame)
        pairs = [*zip(table.column_names, table.columns, strict=True)]
    else:
        pairs = [(str(name), values) for name, values in frame.items()]
    columns = {name: _column(values) for name, values in pairs}
    if len(columns) < len(pairs):
        raise UsageError("two columns of a table have one name.")
    return pa.table(columns)


def _column(values: Any) -> pa.Array:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        if str(values.type).startswith(
            ("int", "uint", "bool", "date", "time", "string", "large_s")
        ):
            return values.cast(pa.string())
        values = values.to_pylist()
    elif hasattr(values, "notna"):
        values = values.astype(object).where(values.notna(), None)
    return pa.array(map(_value_text, values), pa.string())


def _value_text(value: Any) -> str | None:
    r"""A value as text; a whole number is the same as a float.

    >>> [_value_text(value) for value in (3.0, 0.1, float("nan"), [1, None], b"\x01a")]
    ['3', '0.1', None, '[1, null]', '\\x01\\x61']
    """
    if hasattr(value, "tolist"):  # NumPy's
        value = value.tolist()
    if value is None or type(value).__name__ == "NAType" or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, timedelta):  # which pandas writes otherwise
        return f"{value.days} days {timedelta(0, value.seconds, value.microseconds)}"
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02x}" for byte in value)
    with suppress(TypeError, ValueError, RecursionError):
        if isinstance(value, (bool, list, dict)):
            return json.dumps(value, default=_value_text)
    return str(value).encode(errors="replace").decode()


def declared(
    config: Config,
    tables: Mapping[str, pa.Table],
    types: Mapping[str, Mapping[str, str]],
    keys: Mapping[str, str | Mapping[str, Any]],
) -> Config:
    """Return the config with ``[source.tables]`` that declare every column, and the keys.

    A UsageError names a table or column that does not exist, or is no identifier.
    """
    sections = {}
    for name in {**types, **keys, **tables}:
        names = tables[name].column_names if name in tables and name.isidentifier() else ()
        for column in types.get(name, ()) if names else [name]:
            if column not in names:
                raise UsageError(f"{column!r} names no table or column in memory.")
        key = keys.get(name, {})
        columns = dict.fromkeys(names, "VARCHAR") | dict(types.get(name, {}))
        settings = {"primary_key": [key]} if isinstance(key, str) else key
        sections[name] = {"columns": columns, **settings}
    return config.model_copy(update={"source": SourceConfig()}).changed("source", tables=sections)
