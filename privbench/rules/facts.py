"""The rules of a table: collected once, then queried by code that makes or repairs rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from privbench.limits import expression
from privbench.pgsql.written import condition
from privbench.rules.named import named_orders
from privbench.rules.parse import ColumnCondition, lowered, marks, stated
from privbench.schema import Check, Column, ColumnType, ForeignKey, Rule, Table, Unique

#: Names of CHECKs that are no constraints, but follow from the rest of the schema.
BOUNDS, REFERENCE = "partition bounds", "type of a reference"
#: Name of the CHECKs that rows have shown, which no database has.
SHOWN = "shown by rows"
#: The column that the CHECK of a domain speaks of.
VALUE = ("VALUE",)
#: Kinds of rules that limit the values of a column by literals.
LIMITS = ("bounds", "values", "length")
#: The two columns of a range in a constraint.
_ENDS = re.compile(r"""range\("?([^",()]+)"?, (?:COALESCE)?\(*"?([^",()+ ]+)""")
#: Kinds of rules that limit how large a value is.
SIZES = ("length", "size")


def with_rules(table: Table) -> Table:
    """Return the table with all rules that its parts and its columns' domains state."""
    columns = tuple(replace(item, type=type_with_rules(item.type)) for item in table.columns)
    return replace(table, columns=columns, rules=tuple(_of_table(table)))


def type_with_rules(type_: ColumnType) -> ColumnType:
    """Return the type, and the types within it, with the rules of their domains."""
    if not (type_.domain_checks or type_.parts or type_.rules):
        return type_
    rules = [rule for text in type_.domain_checks for rule in _of_check(text, "domain", VALUE)]
    parts = tuple(map(type_with_rules, type_.parts))
    return replace(type_, rules=tuple(rules), parts=parts)


def _of_table(table: Table) -> Iterator[Rule]:
    known = {column.name for column in table.columns}
    tested = {frozenset(check.columns) for check in table.checks if check.name == SHOWN}
    for check in table.checks:
        implied = {BOUNDS: "partition", REFERENCE: "reference"}.get(check.name, "check")
        source = "config" if check.declared else implied
        rules = _of_check(check.expression, source, check.columns)
        yield from (rule for rule in rules if known.issuperset(rule.columns))
    for index in table.indexes:
        whole = index.unique and index.has_expressions and index.predicate is None
        columns = lowered(index.definition) if whole else ()
        if columns and known.issuperset(columns):
            yield Rule("unique", columns, "index", index.definition, fold=True)
    for low, high in named_orders(table):
        if {low, high} not in tested:
            yield Rule("order", (low, high), "name", f"{low} comes before {high}")


def _of_check(text: str, source: Any, columns: tuple[str, ...]) -> Iterator[Rule]:
    """The rules of a CHECK; the last is its whole expression if they are not all of it."""
    rules, whole = stated(text)
    for rule in rules:
        alone = len(columns) == 1 or rule.kind not in ("pattern", "case")
        whole = whole and alone
        names = tuple(map(str.upper, rule.columns)) if columns == VALUE else rule.columns
        if columns != VALUE or names == VALUE:
            yield replace(rule, columns=names, source=source, text=text)
    if not whole:
        yield Rule("expression", columns, source, text)


def declared_check(text: str, name: str, table: Table) -> Check:
    """Return the CHECK that a rule of the config becomes; errors are those of `condition`."""
    whole, columns = condition(expression(text), [column.name for column in table.columns])
    return Check(name, expression(whole), columns, declared=True)


def column_rules(table: Table, column: Column, kinds: Sequence[str] = LIMITS) -> tuple[Rule, ...]:
    """Return the rules of some kinds on a single column, those of its domain last."""
    own = [rule for rule in table.rules if rule.columns == (column.name,) and rule.kind in kinds]
    return (*own, *(rule for rule in column.type.rules if rule.kind in kinds))


def orders(table: Table) -> tuple[Rule, ...]:
    """Return the orders of two columns that CHECKs demand or names suggest."""
    return tuple(rule for rule in table.rules if rule.kind == "order")


def checked_orders(table: Table) -> list[tuple[str, ...]]:
    """Return the columns of each order that a CHECK demands."""
    return [rule.columns for rule in orders(table) if rule.source != "name"]


def exclusions(
    table: Table,
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], bool, tuple[ColumnCondition, ...]]]:
    """Yield constraints by which the periods of rows with equal columns may not overlap.

    Each is a tuple: the columns that are equal; the period, a range or two columns; whether an end
    in a column belongs to the period; and the condition of the rows.
    """
    columns = {column.name for column in table.columns}
    for index in table.indexes:
        text = index.definition
        whole = {name for name in index.columns if table.column(name).type.kind == "r"}
        periods = [(name,) for name in whole] + _ENDS.findall(text)
        same = tuple(name for name in index.columns if name not in whole)
        plain = " WITH &&" in text and text.count(" WITH =") == len(same)
        known = len(periods) == 1 and columns.issuperset(periods[0])
        if known and (plain or "WITHOUT OVERLAPS" in text):
            yield same, periods[0], "'[]'" in text or "+ 1" in text, marks(index.predicate or "")


def singles(table: Table) -> Iterator[tuple[tuple[str, ...], tuple[ColumnCondition, ...]]]:
    """Yield columns of which at most one row per combination meets a condition (`marks`)."""
    for index in table.indexes:
        conditions = marks(index.predicate or "") if index.unique and index.columns else ()
        if conditions and not index.has_expressions:
            yield index.columns, conditions


def sharing_keys(table: Table, columns: tuple[str, ...]) -> tuple[ForeignKey, ...]:
    """Return the foreign keys on just these columns.

    Each parent gets a row of `singles` at most.
    """
    return tuple(
        key
        for key in table.foreign_keys
        if {*key.columns} == {*columns} and not (key.when or key.is_self)
    )


def differences(table: Table) -> tuple[tuple[str, ...], ...]:
    """Return pairs of columns that must differ."""
    return tuple(rule.columns for rule in table.rules if rule.kind == "differs")


def movable_keys(table: Table) -> tuple[ForeignKey, ...]:
    """Return single-column references to other tables, in no other key, that rows may exchange."""
    tied = Counter(name for key in table.foreign_keys for name in key.columns)
    tied.update(name for item in table.unique_sets for name in item.columns)
    keys = (key for key in table.foreign_keys if not (key.is_self or key.when or key.columns[1:]))
    return tuple(key for key in keys if tied[key.columns[0]] == 1)


def folded_uniques(table: Table) -> tuple[Unique, ...]:
    """Return UNIQUE indexes on ``lower(column)``, which are unique whatever the case of letters.

    Such an index may hold other columns too: ``(tenant, lower(mail))``. The case of those is
    ignored as well, which is stricter than the index.
    """
    names = {index.definition: index.name for index in table.indexes}
    rules = (rule for rule in table.rules if rule.kind == "unique")
    return tuple(Unique(names[rule.text], rule.columns) for rule in rules)


def length_limits(limits: Sequence[Rule], declared: int | None) -> tuple[int, int | None]:
    """Return the least and greatest length or size of a value by its rules and declared length."""
    tops = [rule.longest for rule in limits if rule.longest is not None]
    if declared is not None:
        tops.append(declared)
    return max((rule.shortest for rule in limits), default=0), min(tops, default=None)


def allowed(limits: Sequence[Rule]) -> tuple[str, ...] | None:
    """Return the values that every list allows, in the first list's order; None without a list."""
    lists = [rule.values for rule in limits if rule.values is not None]
    if not lists:
        return None
    common = [value for value in lists[0] if all(value in other for other in lists[1:])]
    return tuple(dict.fromkeys(common))
