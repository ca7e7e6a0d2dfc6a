"""Parse CHECKs into the rules that their conjuncts state, and parse definitions of indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from sqlglot import expressions as exp

from privbench.pgsql import Node, SqlError, statement
from privbench.pgsql.expressions import bare, expression_tree
from privbench.schema import Rule

#: A condition on one column: that it is true, NULL or a literal, or is not.
_MARK = re.compile(
    r"""(?P<no>NOT )?\(*"?(?P<name>\w+)"?\)*(?:::[\w ]+)?"""
    r"""(?: (?P<sign>=|<>|IS|IS NOT) (?P<value>NULL|true|false|-?\d+|'[^']*')(?:::[\w ]+)?)?"""
)
#: A column, a literal or None for NULL, and whether the column is that, or anything else.
ColumnCondition = tuple[str, str | None, bool]
#: Conjuncts of one CHECK that become rules, so that rules, which hold its text, stay small.
MOST = 64
#: Kinds that values keep as they are made.
_KEPT = ("bounds", "values", "length", "order", "combination")


@lru_cache(maxsize=4096)
def stated(expression: str) -> tuple[tuple[Rule, ...], bool]:
    """Return the rules that an expression states, and whether they are all that it states.

    A pattern or a case is all of it only if nothing else is stated.

    >>> (bounds, order), whole = stated("((a >= 18) AND (a < b))")
    >>> bounds.low, order.columns, whole
    ('18', ('a', 'b'), True)
    """
    try:
        parts = list(_conjuncts(expression))[: MOST + 1]
        facts = [_fact(part) for part in parts[:MOST]]
        rules = tuple(fact for fact in facts if fact is not None)
        texts = [rule for rule in rules if rule.kind in ("pattern", "case")]
        whole = len(parts) == 1 and len(texts) == 1
        if not whole:
            pairs = zip(parts, facts, strict=False)
            preserved = (_is_not_null(p) or (f is not None and f.kind in _KEPT) for p, f in pairs)
            whole = 0 < len(parts) <= MOST and all(preserved)
    except RecursionError:
        return (), False
    return rules, whole


def _conjuncts(expression: str) -> Iterator[exp.Expr]:
    """The conjuncts of an expression; none where sqlglot cannot read it."""
    text = expression.strip()
    if text.upper().startswith("CHECK"):
        text = text[5:].strip()
    tree = expression_tree(text.removesuffix("NOT VALID").strip())
    if tree is not None:
        yield from _split(tree)


def _split(tree: exp.Expr) -> Iterator[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        yield from _split(tree.left)
        yield from _split(tree.right)
    else:
        yield tree


def _rule(kind: Any, *columns: str | None, **fields: Any) -> Rule | None:
    """A rule of an expression, unless a side of it is no column."""
    names = tuple(name for name in columns if name is not None)
    return Rule(kind, names, "check", "", **fields) if len(names) == len(columns) else None


def _fact(tree: exp.Expr) -> Rule | None:
    """The rule that a conjunct states, or None."""
    if isinstance(tree, exp.Or):
        return _either(tree)
    if isinstance(tree, exp.Column):
        return _rule("values", _column(tree), values=("true",))
    if isinstance(tree, exp.Not):
        return _rule("values", _column(tree.this), values=("false",))
    if isinstance(tree, exp.Between):
        low, high = (_literal_text(tree.args[end]) for end in ("low", "high"))
        return _rule("bounds", _column(tree.this), low=low, high=high) if low and high else None
    if isinstance(tree, exp.In):
        if isinstance(tree.this.unnest(), exp.Tuple):
            return _combination(tree)
        values = _texts(tree.expressions)
        return _rule("values", _column(tree.this), values=values) if values else None
    if isinstance(tree, (exp.EQ, exp.NEQ)) and (together := _null_together(tree)):
        return together
    if isinstance(tree, (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)):
        return _compared(tree)
    if isinstance(tree, exp.NEQ):
        if _literal_text(tree.right) == "":
            return _rule("length", _column(_untrimmed(tree.left)), shortest=1)
        left, right = _column(tree.left), _column(tree.right)
        return _rule("differs", left, right) if left != right else None
    if isinstance(tree, (exp.RegexpLike, exp.RegexpILike, exp.Like, exp.ILike)):
        return _pattern(tree)
    return None


def _either(tree: exp.Or) -> Rule | None:
    """The rule of ``x IS NULL OR rule(x)``, or the list of ``x = 1 OR x = 2``."""
    left, right = tree.left.unnest(), tree.right.unnest()
    for null, other in ((left, right), (right, left)):
        if _is_null(null):
            fact = _fact(other)
            if fact is None or fact.kind in ("order", "pattern", "case"):
                return fact
            return fact if fact.columns == (_column(null.this),) else None
    if isinstance(right, exp.LT) and isinstance(right.left, exp.Rand) and right.right.is_number:
        fact = _fact(left)
        return fact and replace(fact, broken=min(float(right.right.name), 0.99))
    if isinstance(right, exp.In) and isinstance(right.this.unnest(), exp.Tuple):
        rule, others = _combination(right), {_column(i.this) for i in left.find_all(exp.In)}
        return rule if rule and rule.columns[0] in others else None
    one, two = _fact(left), _fact(right)
    if one and two and one.columns == two.columns and one.values and two.values:
        return replace(one, values=one.values + two.values)
    return None


def _combination(tree: exp.In) -> Rule | None:
    """The rule of ``(a, (b IS NULL)) IN (('x', true), ...)``."""
    sides = [side.unnest() for side in tree.this.unnest().expressions]
    names = [_column(side.this if _is_null(side) else side) for side in sides]
    nulls = tuple(n for n, side in zip(names, sides, strict=True) if n and _is_null(side))
    rows = tuple(_texts(row.unnest().expressions) or () for row in tree.expressions)
    sound = {len({*names})} == {len(names), *map(len, rows)}
    return _rule("combination", *names, rows=rows, nulls=nulls) if sound else None


def _null_together(tree: exp.Binary) -> Rule | None:
    """The rule of ``(a IS NULL) = (b IS NULL)``, or of which one of two columns is NULL."""
    sides = [tree.left.unnest(), tree.right.unnest()]
    names = [_column(side.this) for tree in sides for side in tree.find_all(exp.Is)]
    nulls = all(_is_null(side) or _is_not_null(side) for side in sides)
    if not nulls or len({*names}) < 2:
        return None
    apart = (_is_null(sides[0]) != _is_null(sides[1])) != isinstance(tree, exp.NEQ)
    rows = (
        (("true", "false"), ("false", "true")) if apart else (("true", "true"), ("false", "false"))
    )
    return _rule("combination", *names, rows=rows, nulls=(*filter(None, names),))


_MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip


def _compared(tree: exp.Binary) -> Rule | None:
    kind: type[exp.Expr] = type(tree)
    left, right = tree.left.unnest(), tree.right.unnest()
    if _literal_text(left) is not None:
        left, right, kind = right, left, _MIRROR[kind]
    strict = kind in (exp.GT, exp.LT)
    name, other, value = _column(left), _column(right), _literal_text(right)
    if isinstance(bare(left), exp.Length):
        return _length(bare(left), kind, value)
    if (sized := _sized(bare(left))) is not None:
        ends = _ends(kind, value)
        return None if ends is None else _rule("size", _column(sized), **ends)
    if kind is exp.EQ:
        listed = _array(right.this) if isinstance(right, exp.Any) else None
        values = listed or (None if value is None else (value,))
        return _rule("values", name, values=values) if name and values else _cased(left, right)
    if value is not None:
        end = "low" if kind in (exp.GT, exp.GTE) else "high"
        return _rule("bounds", name, strict=strict, **{end: value})
    pair = (other, name) if kind in (exp.GT, exp.GTE) else (name, other)
    return _rule("order", *pair, strict=strict) if name != other else None


def _length(tree: exp.Expr, kind: type[exp.Expr], value: str | None) -> Rule | None:
    plain = _untrimmed(tree.this)
    trimmed = plain is not bare(tree.this)
    ends = _ends(kind, value)
    if ends is None or (trimmed and kind not in (exp.GT, exp.GTE)):
        return None
    return _rule("length", _column(plain), **ends)


def _sized(tree: exp.Expr) -> exp.Expr | None:
    """What a call counts the bytes, bits or elements of; None for other expressions."""
    if isinstance(tree, exp.Anonymous) and len(tree.expressions) == 1:
        named = str(tree.this).lower() in ("octet_length", "cardinality")
        return tree.expressions[0] if named else None
    if isinstance(tree, exp.ArraySize):
        return tree.this if _literal_text(tree.expression) == "1" else None
    return tree.this if isinstance(tree, exp.BitLength) else None


def _ends(kind: type[exp.Expr], value: str | None) -> dict[str, int] | None:
    """The least and greatest number that a comparison with a literal allows; None for others."""
    if value is None or not re.fullmatch("[0-9]{1,18}", value):
        return None
    number = int(value)
    ends = {} if kind in (exp.LT, exp.LTE) else {"shortest": number + (kind is exp.GT)}
    return ends | ({} if kind in (exp.GT, exp.GTE) else {"longest": number - (kind is exp.LT)})


def _cased(*sides: exp.Expr) -> Rule | None:
    """The rule of ``x = upper(x)``: the case of the whole column."""
    for plain, cased in (sides, sides[::-1]):
        cased = bare(cased)
        if isinstance(cased, (exp.Upper, exp.Lower)) and _column(cased.this) == _column(plain):
            case: Literal["upper", "lower"] = "upper" if isinstance(cased, exp.Upper) else "lower"
            return _rule("case", _column(plain), case=case)
    return None


def _is_null(tree: exp.Expr) -> bool:
    """Whether an expression is ``x IS NULL``."""
    plain = isinstance(tree, exp.Is) and not tree.args.get("negate")
    return plain and isinstance(tree.expression, exp.Null)


def _is_not_null(tree: exp.Expr) -> bool:
    """Whether an expression is ``x IS NOT NULL``."""
    # sqlglot writes it Not(Is) or Is(negate), depending on its version.
    if isinstance(tree, exp.Not):
        return _is_null(tree.this.unnest())
    negated = isinstance(tree, exp.Is) and bool(tree.args.get("negate"))
    return negated and isinstance(tree.expression, exp.Null)


def _untrimmed(tree: exp.Expr) -> exp.Expr:
    """The argument of trim(): generated texts have no spaces at their ends."""
    tree = bare(tree)
    return bare(tree.this) if isinstance(tree, exp.Trim) else tree


def _column(tree: exp.Expr) -> str | None:
    """The name of the column that an expression is, without a table's name; else None."""
    tree = bare(tree)
    return tree.name if isinstance(tree, exp.Column) and not tree.table else None


def _literal_text(tree: exp.Expr) -> str | None:
    """The text of a literal, or None."""
    tree = bare(tree)
    if isinstance(tree, exp.Neg):
        inner = _literal_text(tree.this)
        return None if inner is None else f"-{inner}"
    if isinstance(tree, exp.Boolean):
        return str(tree.this).lower()
    return str(tree.this) if isinstance(tree, exp.Literal) else None


def _texts(trees: list[exp.Expr]) -> tuple[str, ...] | None:
    """The texts of literals, or None if one of the expressions is no literal."""
    values = [_literal_text(tree) for tree in trees]
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def _array(tree: exp.Expr) -> tuple[str, ...] | None:
    """The elements of an array of literals, or None."""
    tree = bare(tree)
    if isinstance(tree, exp.Array):
        return _texts(tree.expressions)
    text = str(tree.this) if isinstance(tree, exp.Literal) else ""
    plain = text.startswith("{") and not any(mark in text[1:-1] for mark in '"{}\\')
    return tuple(part.strip() for part in text[1:-1].split(",")) if plain and text[1:-1] else None


#: Characters that are special in a regular expression and stand for themselves in LIKE.
_SPECIAL = ".^$*+?()[]{}|\\"


def _pattern(tree: exp.Expr) -> Rule | None:
    """The regular expression of ``~``, LIKE or SIMILAR TO."""
    text = _similar(tree.expression) or _literal_text(tree.expression)
    if text is None:
        return None
    like = isinstance(tree, (exp.Like, exp.ILike))
    fold = isinstance(tree, (exp.ILike, exp.RegexpILike))
    pattern = _from_like(text) if like else text
    return _rule("pattern", _column(tree.this), pattern=pattern, fold=fold)


def _similar(tree: exp.Expr) -> str | None:
    """The regular expression of ``SIMILAR TO``, which PostgreSQL keeps as a call; else None."""
    tree = bare(tree)
    named = isinstance(tree, exp.Anonymous) and str(tree.this).lower().endswith("similar_to_escape")
    text = _literal_text(tree.expressions[0]) if named and len(tree.expressions) == 1 else None
    if text is None:
        return None
    expression, listed = "", False
    for letter in text:
        listed = letter == "[" or (listed and letter != "]")
        plain = {"%": ".*", "_": ".", ".": r"\.", "^": r"\^", "$": r"\$"}
        expression += letter if listed else plain.get(letter, letter)
    return f"^(?:{expression})$"


def _from_like(text: str) -> str:
    """The regular expression of a LIKE pattern, in which a backslash escapes the next character."""
    expression = ""
    for part in re.findall(r"\\?.", text, re.DOTALL):
        plain = f"\\{part[-1]}" if part[-1] in _SPECIAL else part[-1]
        expression += {"%": ".*", "_": "."}.get(part, plain)
    return f"^{expression}$"


#: What the parser says of an index key, beside its column or expression, if it is in usual order.
_ORDER = {"ordering": "SORTBY_DEFAULT", "nulls_ordering": "SORTBY_NULLS_DEFAULT"}


@lru_cache(maxsize=1024)
def lowered(definition: str) -> tuple[str, ...]:
    """Return the columns of an index on ``lower(column)``, also beside plain columns; else none.

    >>> lowered("CREATE UNIQUE INDEX i ON public.t USING btree (tenant, lower(mail))")
    ('tenant', 'mail')
    """
    try:
        keys = statement(definition).tree.nodes("indexParams")
    except SqlError:
        return ()
    names = [key.get("name") or _lowered_column(key) for key in keys]
    rest = [{k: v for k, v in key.fields.items() if k not in ("name", "expr")} for key in keys]
    if None in names or any(each != _ORDER for each in rest) or all(k.get("name") for k in keys):
        return ()
    return tuple(map(str, names))


def _lowered_column(key: Node) -> str | None:
    """The column of ``lower(column)`` or ``lower((column)::text)``, or None."""
    (call,) = key.nodes("expr")
    args = call.nodes("args") if call.names("funcname") == ("lower",) else []
    plain = [arg.nodes("arg")[0] if arg.kind == "TypeCast" else arg for arg in args]
    words = plain[0].names("fields") if len(plain) == 1 else ()
    return words[0] if len(words) == 1 else None


def marks(predicate: str) -> tuple[ColumnCondition, ...]:
    """Return what an index's condition requires of columns; empty where that is not known.

    >>> marks("((is_main AND (gone IS NULL)) AND ((state)::text <> 'x'::text))")
    (('is_main', 'true', True), ('gone', None, True), ('state', 'x', False))
    """
    parts = [_MARK.fullmatch(part.strip("() ")) for part in predicate.split(" AND ")]
    conditions = [
        (
            part["name"],
            None if part["value"] == "NULL" else (part["value"] or "true").strip("'"),
            (part["no"] is None) == (part["sign"] in (None, "=", "IS")),
        )
        for part in parts
        if part
    ]
    return tuple(conditions) if len(conditions) == len(parts) else ()
