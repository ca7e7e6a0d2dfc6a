"""Expressions that compute columns of a clone from its other rows, judged before any is run.

An expression is a text of a config, which a stranger's model carries too. It is judged as a query
(`judge`), and more strictly: it reads stored columns of the tables of one load alone, each by the
name of its row (``this``) or of a table in its own FROM, so that no name can come to mean something
else, and it calls nothing whose result changes from call to call or is several rows. So what a
column depends on is known, and columns can be put in order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from privbench.limits import expression
from privbench.pgsql.judge import (
    EXPRESSIONS,
    Name,
    NotAllowed,
    Scope,
    judge,
    plain,
    relation_name,
    shown,
)
from privbench.pgsql.parser import Node, SqlError, statement

#: The name of the row that a column is computed for.
ROW = "this"
#: Functions of the allow-list whose results change from call to call, and that return rows.
_REFUSED = frozenset(
    """
    array_sample array_shuffle clock_timestamp gen_random_uuid nextval random random_normal
    timeofday uuidv4 uuidv7
    generate_series generate_subscripts json_array_elements json_array_elements_text json_each
    json_each_text json_object_keys json_populate_recordset json_to_recordset
    jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys
    jsonb_path_query jsonb_path_query_tz jsonb_populate_recordset jsonb_to_recordset
    regexp_matches regexp_split_to_table string_to_table txid_snapshot_xip unnest
    """.split()
)
#: Queries without WITH, functions in FROM, samples, XML and columns that nobody names.
_KINDS = EXPRESSIONS - frozenset(
    """
    A_Star CTECycleClause CTESearchClause ColumnDef CommonTableExpr JsonTable JsonTableColumn
    JsonTablePathSpec RangeFunction RangeTableFunc RangeTableFuncCol RangeTableSample WithClause
    XmlExpr XmlSerialize
    """.split()
)

#: A column: the name of its table, and its own.
Place = tuple[Name, str]


class NotComputable(Exception):
    """A column that cannot be computed; the message is a clause."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(why)
        self.place = place


@dataclass(frozen=True, slots=True)
class Computation:
    """A column and the expression that computes it."""

    table: Name
    column: str
    text: str  # the expression, judged
    reads: frozenset[Place]  # columns that it reads, those of its own row among them
    # Columns that it compares with others by =, as it looks up rows.
    compared: frozenset[Place]
    level: int = 0  # 0 if it reads no computed column, else one more than those that it reads


def computations(
    texts: Mapping[Place, str], tables: Mapping[Name, Collection[str]]
) -> list[Computation]:
    """Judge expressions and put them in order of dependence.

    Args:
        texts: The expression of each computed column.
        tables: The stored columns of all tables of the load.

    Raises:
        NotComputable: An expression is refused, or a column depends on itself.

    >>> table = ("public", "t")
    >>> given = {(table, "b"): "this.a + 1", (table, "c"): "2 * this.b"}
    >>> [(c.column, c.level) for c in computations(given, {table: ["a", "b", "c"]})]
    [('b', 0), ('c', 1)]
    """
    found, scope = {}, _Tables(tables)
    for place, text in texts.items():
        try:
            found[place] = _judged(place, text, scope)
        except (NotAllowed, SqlError, ValueError) as error:
            raise NotComputable(place, str(error).rstrip(".")) from None
    level, left = 0, dict(found)
    while left:
        free = [place for place, item in left.items() if not item.reads & left.keys()]
        if not free:
            raise NotComputable(next(iter(left)), "it depends on itself, or on one that does")
        for place in free:
            found[place] = replace(left.pop(place), level=level)
        level += 1
    return sorted(found.values(), key=lambda item: item.level)


class _Tables(Scope):
    """The tables of a load, and what the server computes without side effects."""

    def __init__(self, tables: Mapping[Name, Collection[str]]) -> None:
        self.tables = {name: frozenset(columns) for name, columns in tables.items()}
        columns = {(column,) for columns in tables.values() for column in columns}
        self._known: dict[str, Collection[Name]] = {"relations": self.tables, "columns": columns}

    def knows(self, kind: str, name: Name) -> bool:
        return name in self._known.get(kind, ())

    def function(self, name: Name) -> bool:
        return plain(name) not in _REFUSED and Scope.function(self, name)

    def type(self, name: Name) -> bool:
        """Types of the server, but not those that look names up in its catalogs."""
        word = plain(name)
        return word is not None and not word.startswith(("reg", "pg_"))


def _judged(place: Place, text: str, scope: _Tables) -> Computation:
    tree = statement(f"SELECT ({expression(text)}\n)").tree
    # The text alone must be an expression too, so that it stays one wherever it stands.
    for whole in (tree, statement(f"SELECT {text}").tree):
        clauses = {name for name in whole.fields if isinstance(whole.get(name), (Node, list))}
        if whole.kind != "SelectStmt" or clauses - {"targetList"} or len(_targets(whole)) != 1:
            raise NotAllowed("it is not one expression of SQL")
    names = _sources(place[0], tree, scope.tables)
    reads = frozenset(
        read
        for node in tree.walk()
        if node.kind == "ColumnRef"
        for read in _read(node, names, scope.tables)
    )
    compared = frozenset(
        read
        for node in tree.walk()
        if node.kind == "A_Expr" and node.names("name") == ("=",)
        for side in [*node.nodes("lexpr"), *node.nodes("rexpr")]
        if side.kind == "ColumnRef" and side.names("fields")[0] != ROW
        for read in _read(side, names, scope.tables)
    )
    judge(tree, scope, _KINDS)
    return Computation(*place, text, reads, compared)


def _targets(tree: Node) -> list[Node]:
    """The targets of a SELECT; none if one of them has a name."""
    found = tree.nodes("targetList")
    return [] if any(node.get("name") for node in found) else found


def _sources(own: Name, tree: Node, tables: Mapping[Name, Collection[str]]) -> dict[str, set[Name]]:
    """The tables that each name of the FROM clauses may stand for; none for a sub-query."""
    found: dict[str, set[Name]] = {ROW: {own}}
    for node in tree.walk():
        if node.kind == "JoinExpr" and (node.get("usingClause") or node.get("isNatural")):
            raise NotAllowed("it joins by columns that it does not name with their tables")
        if node.kind == "Alias" and node.get("colnames"):
            raise NotAllowed("it gives other names to columns")
        if node.kind not in ("RangeVar", "RangeSubselect"):
            if node.kind == "JoinExpr" and node.nodes("alias"):
                raise NotAllowed("it gives a name to a join")
            continue
        table = relation_name(node) if node.kind == "RangeVar" else ()
        if table and table not in tables:
            raise NotAllowed(f"it reads {shown(table)}, which is no table of the clone")
        alias = [str(item.get("aliasname")) for item in node.nodes("alias")] or list(table[-1:])
        for name in alias:
            if name == ROW:
                raise NotAllowed(f"it gives the name {ROW} to another row")
            found.setdefault(name, set()).update([table] if table else [])
    return found


def _read(
    node: Node, names: Mapping[str, set[Name]], tables: Mapping[Name, Collection[str]]
) -> Iterator[Place]:
    """The columns that a reference may mean; none where it is one of a sub-query."""
    words = node.names("fields")
    if len(words) != 2 or words[0] not in names:
        raise NotAllowed(
            f"it names {'.'.join(words)}, but a column is named with its row: {ROW}.name, or by "
            "the name of a table in FROM"
        )
    source, column = words
    reads = [(table, column) for table in names[source] if column in tables.get(table, ())]
    if names[source] and not reads:
        raise NotAllowed(f"it reads {source}.{column}, which is no stored column of the clone")
    yield from reads
