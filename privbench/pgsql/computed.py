"""Expressions that compute columns of a clone from its other rows, judged before they are run.

An expression is a text of a config, which a stranger's model carries too. It is judged as a query
(`judge`), and more strictly: it reads stored columns of the tables of one load alone, each by the
name of its row (``this``) or of a table in its own FROM, so that no name can come to mean something
else, and it calls no function whose result is several rows or changes from call to call. So the
columns on which a column depends are known, and columns can be put in order.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from privbench.display import one_line, quote
from privbench.errors import ConfigError
from privbench.limits import expression
from privbench.pgsql.judge import (
    EXPRESSIONS,
    NotAllowed,
    QualifiedName,
    Scope,
    judge,
    plain,
    relation_name,
    shown,
)
from privbench.pgsql.parser import Node, SqlError, tokens
from privbench.pgsql.written import one_expression

#: The name of the row that a column is computed for.
ROW = "this"
#: Functions of the allow-list whose results change from call to call, or that return rows.
_REFUSED = re.compile(
    "random|clock_timestamp|timeofday|uuidv|nextval|array_s(ample|huffle)|generate_s|unnest|_each"
    "|_elements|_object_keys|recordset|path_query(_tz)?$|regexp_matches|_to_table|snapshot_xip"
)
#: Queries without WITH, functions in FROM, samples, XML and columns that nobody names.
_KINDS = EXPRESSIONS - frozenset(
    """
    A_Star JsonTable RangeFunction RangeTableFunc RangeTableSample WithClause XmlExpr XmlSerialize
    """.split()
)
#: The parts of a query of rows by a condition, and functions of which it needs one.
_PLAIN = {"targetList", "fromClause", "whereClause", "limitOption", "op"}
_AGGREGATES = {"avg", "bool_and", "bool_or", "count", "max", "min", "sum"}
#: Parts of FROM clauses after which a column's name does not tell its table.
_HIDING = {"JoinExpr": ("usingClause", "isNatural", "alias"), "Alias": ("colnames",)}

#: A column: the name of its table, and its own.
TableColumn = tuple[QualifiedName, str]


@dataclass(frozen=True, slots=True)
class Computation:
    """A computed column and its expression, with the columns that it reads."""

    table: QualifiedName
    column: str
    text: str  # the expression, judged
    reads: frozenset[TableColumn]  # columns that it reads, those of its own row among them
    # Columns that it compares with others by =, as it looks up rows.
    compared: frozenset[TableColumn]
    level: int = 0  # 0 if it reads no computed column, else one more than those that it reads
    # For an aggregate of the rows that a column finds: a join of their groups, and the value by it.
    groups: tuple[str, ...] = ()


def computations(
    texts: Mapping[TableColumn, str], tables: Mapping[QualifiedName, Collection[str]]
) -> list[Computation]:
    """Judge expressions and put their columns in the order in which they can be computed.

    Args:
        texts: The expression of each computed column.
        tables: The stored columns of all tables of the load.

    Raises:
        ConfigError: An expression is refused, or a column depends on itself.

    >>> table = ("public", "t")
    >>> given = {(table, "b"): "this.a + 1", (table, "c"): "2 * this.b"}
    >>> [(c.column, c.level) for c in computations(given, {table: ["a", "b", "c"]})]
    [('b', 0), ('c', 1)]
    """
    judged, scope = {}, _Tables(tables)
    for place, text in texts.items():
        try:
            judged[place] = _judged(place, text, scope)
        except (NotAllowed, SqlError, ValueError) as error:
            raise not_computable(place, str(error).rstrip(".")) from None
    level, left = 0, dict(judged)
    while left:
        free = [place for place, item in left.items() if not item.reads & left.keys()]
        if not free:
            raise not_computable(next(iter(left)), "it depends on itself, or on one that does")
        for place in free:
            judged[place] = replace(left.pop(place), level=level)
        level += 1
    return sorted(judged.values(), key=lambda item: item.level)


def not_computable(place: TableColumn, why: str) -> ConfigError:
    """Return the error for a column that cannot be computed, with a clause that says why."""
    (schema, table), column = place
    return ConfigError(
        f"it cannot be computed: {one_line(why)}.",
        table=f"{quote(schema)}.{quote(table)}",
        column=column,
        remedy=f"Change or remove its line under [computed]; {ROW} is the row, and docs/rules.md "
        "shows expressions that work.",
    )


class _Tables(Scope):
    """The tables of a load, and what the server computes without side effects."""

    def __init__(self, tables: Mapping[QualifiedName, Collection[str]]) -> None:
        self.tables = {name: frozenset(columns) for name, columns in tables.items()}
        columns = {(column,) for columns in tables.values() for column in columns}
        super().__init__({"relations": self.tables, "columns": columns})

    def function(self, name: QualifiedName) -> bool:
        return not _REFUSED.search(name[-1]) and super().function(name)

    def type(self, name: QualifiedName) -> bool:
        """Types of the server, but not those that look names up in its catalogs."""
        word = plain(name)
        return word is not None and not word.startswith(("reg", "pg_"))


def _judged(place: TableColumn, text: str, scope: _Tables) -> Computation:
    one_expression(expression(text))
    # It must stay one expression wherever it stands.
    tree = one_expression(f"({text}\n)")
    rows = _rows(place[0], tree, scope)
    reads: dict[QualifiedName, set[TableColumn]] = {}
    compared: set[QualifiedName] = set()
    for node in tree.walk():
        if node.kind == "ColumnRef":
            reads[node.names("fields")] = _columns_read(node.names("fields"), rows, scope)
        if node.kind == "A_Expr" and node.names("name") == ("=",):
            compared.update(side.names("fields") for side in node.children())
    judge(tree, scope, _KINDS)
    looked_up = [places for words, places in reads.items() if words in compared and words[0] != ROW]
    every, groups = frozenset[TableColumn](), _groups(place[1], text, tree)
    reads_and_compared = every.union(*reads.values()), every.union(*looked_up)
    return Computation(*place, text, *reads_and_compared, groups=groups)


def _groups(column: str, text: str, tree: Node) -> tuple[str, ...]:
    """An aggregate of those rows of one table that equal a value of this row, by their groups.

    It reads nothing else of this row, so rows that equal the same value are a group; where there
    is none, or the value is NULL, it is the aggregate of no rows.
    """
    nodes, words = [*tree.walk()], tokens(text)
    kinds = Counter(node.kind for node in nodes)
    query = next(iter(tree.nodes("subselect")), tree)
    (where,) = query.nodes("whereClause") or [tree]
    pairs = [
        [side.names("fields") for side in (*part.nodes("lexpr"), *part.nodes("rexpr"))]
        for part in (where.nodes("args") if where.get("boolop") == "AND_EXPR" else [where])
        if part.get("kind") == "AEXPR_OP" and part.names("name") == ("=",)
    ]
    keys = [sorted(pair, key=_own) for pair in pairs if all(pair) and sum(map(_own, pair)) == 1]
    if (
        not keys
        or tree.get("subLinkType") != "EXPR_SUBLINK"
        or {*query.fields} != _PLAIN
        or kinds["SelectStmt"] + kinds["RangeVar"] + kinds["WindowDef"] != 2
        or not any({*node.names("funcname")[-1:]} & _AGGREGATES for node in nodes)
        or len(places := [at for at, word in enumerate(words) if word.name == ROW]) != 1
    ):
        return ()
    depth, (at,) = [word.kind for word in words].index("SELECT"), places
    before = text[words[depth].end : words[at].start]
    after = text[words[at + 2].end : words[-depth].start]
    alias, key, own = (
        ".".join(f'"{name}"' for name in (word.replace('"', '""') for word in names))
        for names in ((f"privbench {column}",), *keys[0])
    )
    none = f"(SELECT {before}NULL{after}\n)"
    return (
        f"LEFT JOIN (SELECT {key}, {before}{key}{after}\nGROUP BY {key}) AS {alias} (key, value)"
        f" ON {alias}.key = {own}",
        f"CASE WHEN {alias}.key IS NULL THEN {none} ELSE {alias}.value END",
    )


def _own(names: QualifiedName) -> bool:
    return names[:1] == (ROW,)


def _rows(own: QualifiedName, tree: Node, scope: _Tables) -> dict[str, set[QualifiedName]]:
    """The tables whose rows each name may stand for; none where it is that of a sub-query."""
    rows: dict[str, set[QualifiedName]] = {ROW: {own}}
    for node in tree.walk():
        if any(map(node.get, _HIDING.get(node.kind, ()))):
            raise NotAllowed("it joins or renames columns so that names do not tell their tables")
        if node.kind in ("RangeVar", "RangeSubselect"):
            table = relation_name(node)
            if table and table not in scope.tables:
                raise NotAllowed(f"it reads {shown(table)}, which is no table of the clone")
            alias = [str(item.get("aliasname")) for item in node.nodes("alias")]
            for name in alias or table[-1:]:
                if name == ROW:
                    raise NotAllowed(f"it gives the name {ROW} to another row")
                rows.setdefault(name, set()).update([table] if table else [])
    return rows


def _columns_read(
    words: QualifiedName, rows: Mapping[str, set[QualifiedName]], scope: _Tables
) -> set[TableColumn]:
    """The columns that a reference may mean; none where it is one of a sub-query."""
    if len(words) != 2 or words[0] not in rows:
        raise NotAllowed(
            f"it names {shown(words)}, but a column is named with its row: {ROW}.name, or by the "
            "name of a table in FROM"
        )
    tables, column = rows[words[0]], words[1]
    reads = {(table, column) for table in tables if column in scope.tables[table]}
    if tables and not reads:
        raise NotAllowed(f"it reads {shown(words)}, which is no stored column of the clone")
    return reads
