"""Ways of keeping a CHECK, read from its tree: ``a IS NULL OR (b IS NULL AND c = 0)`` has two.

OR, AND, NOT, CASE, ``(a IS NULL) = (b IS NULL)``, ``num_nonnulls(a, b) = 1`` and sums of truth
values are understood; whatever they join is left to `atoms`. Nothing is known to be right:
PostgreSQL judges every row that an arm would make (`choose`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import combinations

import sqlglot
from sqlglot import expressions as exp
from sqlglot.errors import SqlglotError

from privbench.pgsql.written import computes
from privbench.postgres.mend.atoms import NOTHING, Arm, Atoms, as_text, bare, is_equation, join
from privbench.postgres.mend.parsed import parsed
from privbench.schema import Table

#: Most arms of one CHECK.
MOST = 48

_COUNTED: dict[type[exp.Expr], Callable[[int, int], bool]] = {
    exp.EQ: operator.eq, exp.NEQ: operator.ne, exp.LT: operator.lt,
    exp.LTE: operator.le, exp.GT: operator.gt, exp.GTE: operator.ge,
}  # fmt: skip
_LOGIC = (exp.Or, exp.Case, exp.Not)
#: What has a truth value, whatever columns are.
_TRUTHS = (exp.Connector, exp.Not, exp.Is, exp.Binary, exp.Between, exp.In, exp.Boolean, exp.Case)
_NO_TRUTHS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.DPipe, exp.Dot)


def arms(table: Table, texts: Sequence[str], columns: Iterable[str]) -> list[Arm]:
    """How a row may come to keep some CHECKs at once.

    Args:
        table: The table.
        texts: The CHECKs as the catalog prints them.
        columns: Columns that may change.

    Returns:
        Arms that change something; none where no CHECK joins several conditions, or one cannot be
        read.

    >>> from privbench.schema import Column, ColumnType, TableName
    >>> names = [Column(name, 1, ColumnType("integer", "int4")) for name in "ab"]
    >>> table = Table(TableName("public", "t"), tuple(names))
    >>> found = arms(table, ["((a IS NULL) = (b IS NULL))"], "ab")
    >>> [[change.value for change in arm.changes] for arm in found][0]
    ['NULL', 'NULL']
    """
    read = [parsed(text) for text in texts]
    trees = [_expanded(tree, table) for tree in read if tree is not None]
    if len(trees) < len(read):
        return []
    reader = _Reader(Atoms(table, frozenset(columns)))
    if not any(reader.joins(tree) for tree in trees):
        return []
    found = _every(reader.read(tree, True) for tree in trees)
    sources = [*texts, *(column.default for column in table.columns if column.default)]
    return [arm for arm in dict.fromkeys(found) if arm.changes and _computes(arm, sources)]


def _computes(arm: Arm, sources: list[str]) -> bool:
    """Whether all SQL of an arm does no more than the CHECKs that it was read from."""
    written = [text for change in arm.changes for text in (change.condition, change.value) if text]
    return all(computes(text, sources) for text in written)


def has_equation(text: str) -> bool:
    """Whether a CHECK says what some column is, computed from others.

    >>> has_equation("((state = 'x') OR (gross = (net + tax)))"), has_equation("(a = 1)")
    (True, False)
    """
    tree = parsed(text)
    return tree is not None and any(is_equation(node) for node in tree.find_all(exp.EQ))


def _expanded(tree: exp.Expr, table: Table) -> exp.Expr:
    """A tree in which generated columns are what they are computed from."""
    made = {column.name: column.default for column in table.columns if column.generated}

    def replaced(node: exp.Expr) -> exp.Expr:
        text = made.get(node.name) if isinstance(node, exp.Column) else None
        return exp.paren(sqlglot.parse_one(text, read="postgres")) if text else node

    try:
        return tree.transform(replaced)
    except (SqlglotError, RecursionError):
        return tree


def _every(sides: Iterable[list[Arm]]) -> list[Arm]:
    """Arms of all of some trees at once."""
    return reduce(_product, sides, [NOTHING])


def _product(left: list[Arm], right: list[Arm]) -> list[Arm]:
    """Arms of two trees at once."""
    both = (join(one, other) for one in left for other in right)
    return list(dict.fromkeys(arm for arm in both if arm is not None))[:MOST]


class _Reader:
    """Reads trees of one table."""

    def __init__(self, atoms: Atoms) -> None:
        self._atoms = atoms

    def joins(self, tree: exp.Expr) -> bool:
        """Whether a tree joins conditions in another way than AND, or says what a column is."""
        tree = tree.unnest()
        if isinstance(tree, exp.And):
            return self.joins(tree.left) or self.joins(tree.right)
        if isinstance(tree, _LOGIC) or is_equation(tree):
            return True
        return self._equal_truths(tree) or _count(tree) is not None

    def read(self, tree: exp.Expr, want: bool) -> list[Arm]:
        """Arms that make a tree true, or false."""
        tree = tree.unnest()
        if isinstance(tree, exp.Not):
            return self.read(tree.this, not want)
        if isinstance(tree, (exp.And, exp.Or)):
            sides = self.read(tree.left, want), self.read(tree.right, want)
            if isinstance(tree, exp.And) == want:
                return _product(*sides)
            return [*sides[0], *sides[1]][:MOST]
        if isinstance(tree, exp.Boolean):
            return [NOTHING] if bool(tree.this) == want else []
        if isinstance(tree, exp.Case):
            return self._case(tree, want)
        if self._equal_truths(tree):
            same = isinstance(tree, exp.EQ) == want
            return self._equal(tree.args["this"], tree.args["expression"], same)
        counted = _count(tree)
        if counted is not None:
            return self._count(*counted, want)
        return self._atoms.read(tree, want)

    def _case(self, tree: exp.Case, want: bool) -> list[Arm]:
        """Arms of every branch in which those before it do not apply."""
        found: list[Arm] = []
        before = [NOTHING]
        for branch in tree.args["ifs"]:
            when = (
                branch.this if tree.this is None else exp.EQ(this=tree.this, expression=branch.this)
            )
            inside = _product(before, self.read(when, True))
            found += _product(inside, self._result(branch.args["true"], want))
            before = _product(before, self.read(when, False))
        default = tree.args.get("default")
        return [*found, *_product(before, self._result(default, want))][:MOST]

    def _result(self, tree: exp.Expr | None, want: bool) -> list[Arm]:
        """Arms of what a branch of CASE gives; NULL keeps a CHECK."""
        if tree is None or isinstance(bare(tree), exp.Null):
            return [NOTHING]
        return self.read(tree, want)

    def _equal_truths(self, tree: exp.Expr) -> bool:
        """Whether a tree says that two truth values are equal, or differ."""
        if not isinstance(tree, (exp.EQ, exp.NEQ)):
            return False
        sides = [tree.left.unnest(), tree.right.unnest()]
        return all(self._is_truth(side) for side in sides) and any(
            not isinstance(side, (exp.Column, exp.Boolean)) for side in sides
        )

    def _is_truth(self, tree: exp.Expr) -> bool:
        if isinstance(tree, exp.Column):
            return self._atoms.is_boolean(tree)
        return isinstance(tree, _TRUTHS) and not isinstance(tree, _NO_TRUTHS)

    def _equal(self, left: exp.Expr, right: exp.Expr, same: bool) -> list[Arm]:
        pairs = [(truth, truth == same) for truth in (True, False)]
        return [
            arm
            for one, other in pairs
            for arm in _product(self.read(left, one), self.read(right, other))
        ][:MOST]

    def _count(
        self, terms: Sequence[exp.Expr], fits: Callable[[int], bool], want: bool
    ) -> list[Arm]:
        """Arms of every choice of terms that may be true; one first, which is the usual number."""
        found: list[Arm] = []
        for size in sorted(range(len(terms) + 1), key=lambda size: abs(size - 1)):
            for chosen in combinations(range(len(terms)), size) if fits(size) == want else ():
                found += _every(
                    self.read(term, place in chosen) for place, term in enumerate(terms)
                )
                if len(found) >= MOST:
                    return found[:MOST]
        return found


def _count(tree: exp.Expr) -> tuple[list[exp.Expr], Callable[[int], bool]] | None:
    """The truth values whose number a tree compares with an integer, and which numbers will do."""
    compare = _COUNTED.get(type(tree))
    if compare is None:
        return None
    text = as_text(tree.args["expression"])
    terms = _terms(tree.this.unnest())
    if text is None or not text.isdigit() or not 1 < len(terms) <= 8:
        return None
    return terms, lambda size: compare(size, int(text))


def _terms(tree: exp.Expr) -> list[exp.Expr]:
    """Truth values that a tree counts: ``num_nonnulls(a, b)``, ``a::int + (b IS NULL)::int``."""
    if isinstance(tree, exp.Anonymous) and str(tree.this).lower() in ("num_nonnulls", "num_nulls"):
        nulls: list[exp.Expr] = [
            exp.Is(this=item.copy(), expression=exp.Null()) for item in tree.expressions
        ]
        return nulls if str(tree.this).lower() == "num_nulls" else [exp.Not(this=n) for n in nulls]
    if isinstance(tree, exp.Add):
        sides = [_terms(tree.left.unnest()), _terms(tree.right.unnest())]
        return [*sides[0], *sides[1]] if all(sides) else []
    if isinstance(tree, exp.Cast) and tree.is_type("int", "bigint", "smallint"):
        # A number is no truth value, whatever it is cast to.
        inner = tree.this.unnest()
        return [inner] if isinstance(inner, (exp.Is, exp.Not, exp.Connector, exp.Column)) else []
    if isinstance(tree, exp.Case) and tree.this is None and len(tree.args["ifs"]) == 1:
        branch, default = tree.args["ifs"][0], tree.args.get("default")
        pair = as_text(branch.args["true"]), "0" if default is None else as_text(default)
        return [branch.this] if pair == ("1", "0") else []
    return []
