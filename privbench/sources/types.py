"""The PostgreSQL type for each DuckDB type, and the form in which its values are copied."""

import re

#: Types of DuckDB whose Arrow values are copied unchanged, and their PostgreSQL types.
_AS_ARROW = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "UTINYINT": "smallint",
    "USMALLINT": "integer",
    "UINTEGER": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "BLOB": "bytea",
}
#: Types whose values are copied as the text that DuckDB prints, which PostgreSQL can read.
_AS_TEXT = {
    "UBIGINT": "numeric(20,0)",
    "HUGEINT": "numeric(39,0)",
    "UHUGEINT": "numeric(39,0)",
    "VARCHAR": "text",
    "JSON": "json",
    "UUID": "uuid",
    "BIT": "bit varying",
    "DATE": "date",
    "TIME": "time without time zone",
    "TIME_NS": "time without time zone",
    "TIME WITH TIME ZONE": "time with time zone",
    "TIMESTAMP": "timestamp without time zone",
    "TIMESTAMP_S": "timestamp without time zone",
    "TIMESTAMP_MS": "timestamp without time zone",
    "TIMESTAMP_NS": "timestamp without time zone",
    "TIMESTAMP WITH TIME ZONE": "timestamp with time zone",
    "INTERVAL": "interval",
}
_DECIMAL = re.compile(r"DECIMAL\(([1-9]|[12][0-9]|3[0-8]),([0-9]{1,2})\)")
_LIST = re.compile(r"(.*)\[(?:[1-9][0-9]{0,4}|100000)?\]", re.DOTALL)

#: Every type without parameters, for the table in the documentation.
SIMPLE = _AS_ARROW | _AS_TEXT


def postgres_type(kind: str) -> str | None:
    """Return the PostgreSQL type for a type that DuckDB's DESCRIBE prints; None if there is none.

    An ENUM becomes text, since labels of a PostgreSQL enum count as public: DuckDB takes the labels
    from rows if a table comes from a data frame or from ``SELECT DISTINCT``.

    >>> postgres_type("DECIMAL(18,3)"), postgres_type("UTINYINT[3]"), postgres_type("ENUM('a')")
    ('numeric(18,3)', 'smallint[]', 'text')
    >>> postgres_type("MAP(VARCHAR, INTEGER)"), postgres_type("INTEGER[][]")
    (None, None)
    >>> postgres_type("DECIMAL(2,5)"), postgres_type("INTEGER[0]")
    (None, None)
    """
    if match := _LIST.fullmatch(kind):
        element = None if match[1].endswith("]") else postgres_type(match[1])
        return None if element is None else f"{element}[]"
    if match := _DECIMAL.fullmatch(kind):
        within = int(match[2]) <= int(match[1])
        return f"numeric({match[1]},{match[2]})" if within else None
    return "text" if kind.startswith("ENUM(") else SIMPLE.get(kind)


def declared_type(text: str) -> str | None:
    """Return a type declared in a config, as DuckDB prints it; None if it cannot be declared.

    >>> declared_type("decimal(18, 3)"), declared_type("ENUM('a')")
    ('DECIMAL(18,3)', None)
    """
    kind = text.strip().upper().replace(", ", ",")
    kind = {"TEXT": "VARCHAR", "INT": "INTEGER"}.get(kind, kind)
    known = postgres_type(kind) is not None and "ENUM(" not in kind
    return kind if known else None


def type_of(kind: str) -> str | None:
    """Return the DuckDB type for a PostgreSQL type whose values are texts in files, or None.

    >>> type_of("timestamp(3) without time zone"), type_of("numeric(9,2)"), type_of("numeric")
    ('TIMESTAMP', 'DECIMAL(9,2)', None)
    """
    plain = re.sub(r"\(\d\)", "", kind.replace("jsonb", "json"))
    texts = {known: name for name, known in reversed(_AS_TEXT.items()) if known != "text"}
    if match := _DECIMAL.fullmatch(kind.replace("numeric", "DECIMAL")):
        return match[0] if postgres_type(match[0]) else None
    return texts.get(plain)


def element_type(kind: str) -> str | None:
    """Return the type of a list's elements, as DuckDB prints it; None if a type is no list.

    >>> element_type("INTEGER[3]"), element_type("INTEGER")
    ('INTEGER', None)
    """
    match = _LIST.fullmatch(kind)
    return match[1] if match else None


def selected(kind: str, column: str) -> str:
    """Return DuckDB's SQL for a quoted column, in a form that `postgres.csvtext` can write."""
    if element := element_type(kind):
        return f"CAST({column} AS {element if element in _AS_ARROW else 'VARCHAR'}[])"
    return column if kind in _AS_ARROW else f"CAST({column} AS VARCHAR)"
