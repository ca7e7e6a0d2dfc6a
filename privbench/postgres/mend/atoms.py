"""What makes a single condition of a CHECK true or false: values of its columns.

A value is NULL, an expression that the condition itself speaks of, or drawn from rows that meet
the condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import expressions as exp

from privbench.schema import ColumnType, Table

#: Costs beyond that of the change itself: of a value that no row may have, of one that the CHECK
#: does not ask for.
_MADE, _UNASKED = 0.5, 4.0
_SIGNS: dict[type[exp.Expr], str] = {exp.LT: "-", exp.GT: "+", exp.LTE: "", exp.GTE: "", exp.EQ: ""}
_STEPS = {"N": "1", "D": "interval '1 day'", "T": "interval '1 hour'"}
_MIRROR: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
}
_OPPOSITE: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE, exp.LTE: exp.GT, exp.NEQ: exp.EQ,
}  # fmt: skip
#: Values of types of which a table has none.
_SIMPLE = {"N": "0", "S": "'x'", "B": "false", "D": "'2020-01-01'", "T": "'1 day'", "A": "'{}'"}


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one column.

    Attributes:
        column: The column.
        condition: Rows that meet it keep their value.
        value: SQL of the new value; None: drawn from rows that meet the condition.
        cost: Cost beyond that of the column.
        computed: Whether the value follows from other columns, so that how many rows have it by
            chance says nothing.
    """

    column: str
    condition: str
    value: str | None
    cost: float = 0.0
    computed: bool = False


@dataclass(frozen=True, slots=True)
class Arm:
    """Changes that may bring a row to keep a CHECK.

    Attributes:
        changes: At most one per column; none where only rows that are so already can keep it.
    """

    changes: tuple[Change, ...] = ()


NOTHING = Arm()


def join(one: Arm, other: Arm) -> Arm | None:
    """Both arms at once; None where they want different values of one column."""
    made = {change.column: change for change in one.changes}
    for change in other.changes:
        found = made.get(change.column)
        merged = change if found is None else _merged(found, change)
        if merged is None:
            return None
        made[change.column] = merged
    return Arm(tuple(made.values()))


def _merged(one: Change, other: Change) -> Change | None:
    if one == other:
        return one
    values = {change.value for change in (one, other) if change.value is not None}
    drawn = one.value is None or other.value is None
    if len(values) > 1 or (drawn and "NULL" in values):
        return None
    condition = f"({one.condition}) AND ({other.condition})"
    cost, computed = max(one.cost, other.cost), one.computed or other.computed
    return Change(one.column, condition, next(iter(values), None), cost, computed)


class Atoms:
    """Reads conditions on one table's columns.

    Args:
        table: The table.
        columns: Columns that may change.
    """

    def __init__(self, table: Table, columns: frozenset[str]) -> None:
        self._types = {column.name: column.type for column in table.columns}
        self._nullable = {column.name for column in table.columns if not column.not_null}
        self._defaults = {
            column.name: column.default
            for column in table.columns
            if column.default and column.sequence is None and not column.generated
        }
        self._columns = columns
        self._referring = table.key_columns
        self._parts = {
            name for key in table.foreign_keys if len(key.columns) > 1 for name in key.columns
        }
        self._full = {key.columns for key in table.foreign_keys if key.match == "f"}

    def is_boolean(self, tree: exp.Expr) -> bool:
        """Whether a tree is a boolean column."""
        type_ = self._types.get(tree.name)
        return type_ is not None and type_.base == "bool"

    def read(self, tree: exp.Expr, want: bool) -> list[Arm]:
        """Arms that make a condition true, or false."""
        if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
            return self._nulls(tree.this.unnest(), want != bool(tree.args.get("negate")))
        text = tree.sql(dialect="postgres")
        condition = text if want else f"NOT ({text})"
        names = dict.fromkeys(node.name for node in tree.find_all(exp.Column))
        free = [name for name in names if name in self._columns]
        if not free:
            # Where the condition holds already, nothing is to be done.
            return [NOTHING]
        changes = [
            change
            for name in free
            for change in self._values(tree, want, name, condition, alone=len(names) == 1)
        ]
        return [Arm((change,)) for change in changes]

    def _nulls(self, tree: exp.Expr, want: bool) -> list[Arm]:
        """Arms for ``x IS NULL``, or ``x IS NOT NULL``."""
        text = tree.sql(dialect="postgres")
        condition = f"{text} IS NULL" if want else f"{text} IS NOT NULL"
        name = column_of(tree)
        if name is None or name not in self._columns:
            return [NOTHING]
        if want:
            return [self._emptied(name, condition)] if name in self._nullable else []
        if name in self._parts:
            return [NOTHING]
        return [
            Arm((change,))
            for change in (
                Change(name, condition, None),
                *self._made(self._types[name], name, condition),
            )
        ]

    def _emptied(self, name: str, condition: str) -> Arm:
        """NULL in a column; under MATCH FULL, in its whole key."""
        key = next((key for key in self._full if name in key), (name,))
        rest = (Change(other, f"{quoted(other)} IS NULL", "NULL") for other in key)
        mine = Change(name, condition, "NULL")
        return Arm((mine, *(change for change in rest if change.column != name)))

    def _values(
        self, tree: exp.Expr, want: bool, name: str, condition: str, *, alone: bool
    ) -> Iterator[Change]:
        if self.is_boolean(tree) and column_of(tree) == name:
            yield Change(name, condition, "true" if want else "false")
            return
        if name not in self._referring:
            for value in _equal_to(tree, want, name, self._types[name].category):
                only = _is_only(tree, want)
                yield Change(name, condition, value, 0.0 if only else _MADE, only and not alone)
        if alone and name not in self._parts and not _is_only(tree, want):
            yield Change(name, condition, None)
        if name in self._nullable:
            yield Change(name, condition, "NULL", _UNASKED)

    def _made(self, type_: ColumnType, name: str, condition: str) -> Iterator[Change]:
        """Values where no row has one; a reference takes its own from the parent (`choose`)."""
        if name in self._referring:
            return
        texts = [self._defaults.get(name), _SIMPLE.get(type_.category)]
        if type_.labels:
            texts = [self._defaults.get(name), literal(type_.labels[0])]
        for text in texts:
            if text is not None:
                yield Change(name, condition, text, _UNASKED)


def is_equation(tree: exp.Expr) -> bool:
    """Whether a tree says what a column is, computed from others: ``gross = net + tax``."""
    if not isinstance(tree, exp.EQ):
        return False
    sides = [(tree.left, tree.right), (tree.right, tree.left)]
    return any(
        column_of(one) is not None and column_of(other) is None and other.find(exp.Column)
        for one, other in sides
    )


def _is_only(tree: exp.Expr, want: bool) -> bool:
    """Whether a single value makes a condition so: ``x = 1``."""
    side = tree.args.get("expression")
    whole = isinstance(tree, exp.EQ if want else exp.NEQ) and not isinstance(side, exp.Any)
    return whole and not any(isinstance(node, exp.Anonymous) for node in tree.find_all(exp.Func))


def _equal_to(tree: exp.Expr, want: bool, name: str, category: str) -> Iterator[str]:
    """Values that a condition compares a column with, as they would keep it."""
    if isinstance(tree, exp.In):
        yield from (item.sql(dialect="postgres") for item in tree.expressions if want)
    elif isinstance(tree, exp.Between):
        if want and column_of(tree.this) == name:
            yield from (tree.args[end].sql(dialect="postgres") for end in ("low", "high"))
    elif isinstance(tree, exp.Binary):
        kind = type(tree) if want else _OPPOSITE.get(type(tree), exp.Binary)
        left, right = tree.left, tree.right
        for mine, other, how in ((left, right, kind), (right, left, _MIRROR.get(kind, kind))):
            if how in _SIGNS and column_of(mine) == name:
                yield from _sides(other, _SIGNS[how], category)


def _sides(other: exp.Expr, sign: str, category: str) -> Iterator[str]:
    """What a column may be so that it compares so with something."""
    if isinstance(other, exp.Any):
        listed = bare(other.this)
        if isinstance(listed, exp.Array):
            yield from (item.sql(dialect="postgres") for item in listed.expressions)
    elif not sign:
        yield other.sql(dialect="postgres")
    elif category in _STEPS:
        yield f"({other.sql(dialect='postgres')}) {sign} {_STEPS[category]}"


def bare(tree: exp.Expr) -> exp.Expr:
    """Without parentheses and casts."""
    while isinstance(tree, (exp.Paren, exp.Cast)):
        tree = tree.this
    return tree


def column_of(tree: exp.Expr) -> str | None:
    """The column that a tree is, casts aside."""
    tree = bare(tree)
    return tree.name if isinstance(tree, exp.Column) else None


def as_text(tree: exp.Expr) -> str | None:
    """The text of a literal."""
    tree = bare(tree)
    return str(tree.this) if isinstance(tree, exp.Literal) else None


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return exp.to_identifier(name, quoted=True).sql(dialect="postgres")


def literal(text: str) -> str:
    """A text in SQL."""
    return exp.Literal.string(text).sql(dialect="postgres")
