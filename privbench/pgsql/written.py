"""Judge expressions that sqlglot or the owner of a config has written, before they run.

sqlglot reads a CHECK or a query and writes new expressions from its parts. As it reads some texts
differently from PostgreSQL, PostgreSQL's own parser has to judge the result: it runs only if it is
one expression whose functions, operators and types only compute or occur in the texts that it was
made from. Rules of a config may only name functions, operators and types that only compute.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from privbench.pgsql.judge import EXPRESSIONS, NotAllowed, QualifiedName, Scope, judge, shown
from privbench.pgsql.parser import Node, SqlError, statement, tokens

_QUERIES = frozenset(
    "CommonTableExpr JoinExpr RangeFunction RangeSubselect RangeVar SelectStmt SubLink".split()
)
#: The kind of object that a kind of node names, and the field of the name.
_NAMING = {
    "A_Expr": ("operators", "name"),
    "CollateClause": ("collations", "collname"),
    "FuncCall": ("functions", "funcname"),
    "TypeName": ("types", "names"),
}


def computes(text: str, sources: Iterable[str]) -> bool:
    """Return whether a text is one expression that does no more than the texts it was made from.

    These sources are expressions as the target's catalog prints them.

    >>> computes("(a + 1)", ["(a > 0)"]), computes("pg_read_file(a)", ["(a > 0)"])
    (True, False)
    >>> computes("1 FROM t", []), computes("1, b = 2", []), computes("public.f(a)", ["public.f(b)"])
    (False, False, True)
    """
    sources = tuple(sources)
    if text in sources:
        return True
    try:
        judged(text, sources)
    except NotAllowed:
        return False
    return True


def judged(text: str, sources: Iterable[str] = ()) -> Node:
    """Parse a text that is one expression for which `computes` holds, and return its tree.

    Raises:
        NotAllowed: The text is no such expression.
    """
    tree = one_expression(text)
    judge(tree, _scope_of_sources(sources), EXPRESSIONS - _QUERIES)
    return tree


def one_expression(text: str) -> Node:
    """Parse a text that is one expression; raise a NotAllowed for any other text."""
    tree = _expression(text)
    if tree is None:
        raise NotAllowed("it is not one expression of SQL")
    return tree


def canonical(text: str) -> str:
    r"""Return a judged expression in the parser's spelling: names folded, comments removed.

    Strings with backslashes are ordinary string literals, as PostgreSQL prints them. Raises a
    SqlError if the expression is nested too deeply to be written.

    >>> canonical(r"Zip !~ '^\d' -- no digits")
    "zip !~ '^\\d'"
    """
    import postgast
    from google.protobuf.message import DecodeError

    try:
        written = postgast.deparse(postgast.parse(f"SELECT {text}")).removeprefix("SELECT ")
    except (DecodeError, postgast.PgQueryError):
        raise SqlError("it is nested too deeply.") from None
    result, at = "", 0
    for token in tokens(written):
        plain = token.text
        if token.kind == "SCONST" and plain[0] in "Ee":
            plain = plain[1:].replace("\\\\", "\\")
        result += written[at : token.start] + plain
        at = token.end
    return result


def condition(text: str, known: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return a config's rule in canonical spelling, in brackets, and the columns that it reads.

    At least one of the known columns is read, and no other.

    Raises:
        NotAllowed: It does more than compute, or reads something else.
        SqlError: It cannot be written.
    """
    judged(text)
    # The brackets keep readers of CHECKs from taking the first word for a keyword.
    whole, known = f"({canonical(text)})", tuple(known)
    read = {node.names("fields") for node in judged(whole).walk() if node.kind == "ColumnRef"}
    unknown = sorted(read - {(column,) for column in known})
    if unknown or not read:
        what = f"{shown(unknown[0])}, which is no column of the table" if unknown else "no column"
        raise NotAllowed(f"it reads {what}")
    return whole, tuple(column for column in known if (column,) in read)


@lru_cache(maxsize=4096)
def _expression(text: str) -> Node | None:
    """The tree of a text that is one expression; None of any other."""
    try:
        tree = statement(f"SELECT {text}").tree
    except SqlError:
        return None
    targets = tree.nodes("targetList")
    whole = tree.kind == "SelectStmt" and set(tree.fields) <= {"targetList", "limitOption", "op"}
    if not whole or len(targets) != 1 or set(targets[0].fields) - {"val", "location"}:
        return None
    return targets[0].nodes("val")[0]


def _scope_of_sources(sources: Iterable[str]) -> Scope:
    """A scope of the names in some expressions, besides built-in ones that only compute."""
    trees = [tree for source in sources if (tree := _expression(source)) is not None]
    known = defaultdict[str, set[QualifiedName]](set)
    for node in (node for tree in trees for node in tree.walk()):
        if node.kind in _NAMING:
            kind, field = _NAMING[node.kind]
            known[kind].add(node.names(field))
        fields = (*node.names("fields"), *node.names("indirection"))
        known["columns"].update((word,) for word in fields)
    return Scope(known)
