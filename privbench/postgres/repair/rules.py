"""Rules: CHECKs of tables and domains, as the target's catalog states them.

The text of a CHECK gives values to try: ``(gross = (net + tax))`` gives ``(net + tax)`` for
``gross``. sqlglot reads the text, PostgreSQL's parser judges every value before it runs
(`privbench.pgsql.written`), and PostgreSQL evaluates for each row whether a value helps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any, LiteralString

from psycopg import sql
from sqlglot import expressions as exp

from privbench.pgsql.expressions import bare, expression_tree
from privbench.pgsql.written import computes
from privbench.postgres.repair import rows
from privbench.postgres.repair.rows import Rows
from privbench.postgres.statement import build
from privbench.schema import Column, ForeignKey, Table, TableName

#: CHECKs of tables, and those of single partitions, which come with the partition's name in
#: SQL. Column number 0 stands for the whole row, which has all columns.
_TABLE_CHECKS: LiteralString = """
SELECT wanted.schema, wanted.name,
  own.schema, own.name, k.conname, pg_catalog.pg_get_constraintdef(k.oid),
  pg_catalog.pg_get_expr(k.conbin, k.conrelid),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = k.conrelid AND a.attnum > 0 AND NOT a.attisdropped
          AND (a.attnum = ANY(k.conkey) OR 0 = ANY(k.conkey)) ORDER BY a.attnum),
  CASE WHEN k.connoinherit THEN pg_catalog.format('%%I.%%I', own.schema, own.name) ELSE own.part END
FROM {parts}
JOIN pg_catalog.pg_constraint k ON k.conrelid = own.oid
WHERE k.contype = 'c' AND k.conislocal AND k.coninhcount = 0
ORDER BY own.part IS NOT NULL, k.conname, own.schema, own.name
"""
#: Every domain with a CHECK, the columns of its type or of a domain over it, and its base type by
#: `format_type`, as the plain SQL names character and bit mean those of length one. Domains within
#: an array, a range or a composite type are left out: PostgreSQL cannot put their CHECKs back.
_DOMAIN_CHECKS: LiteralString = """
WITH RECURSIVE over(base, type) AS (
  SELECT oid, oid FROM pg_catalog.pg_type WHERE typtype = 'd'
  UNION
  SELECT o.base, d.oid FROM over o JOIN pg_catalog.pg_type d
    ON d.typtype = 'd' AND d.typbasetype = o.type)
SELECT wanted.schema, wanted.name, n.nspname, t.typname, k.conname,
  pg_catalog.pg_get_constraintdef(k.oid), pg_catalog.pg_get_expr(k.conbin, 0),
  array(SELECT a.attname::text FROM pg_catalog.pg_attribute a
        JOIN over o ON o.type = a.atttypid AND o.base = t.oid
        WHERE a.attrelid = own.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
  (SELECT pg_catalog.format_type(b.oid, -1) FROM over u JOIN pg_catalog.pg_type d ON d.oid = u.base
   JOIN pg_catalog.pg_type b ON b.oid = d.typbasetype AND b.typtype <> 'd' WHERE u.type = t.oid)
FROM {parts}
CROSS JOIN pg_catalog.pg_constraint k
JOIN pg_catalog.pg_type t ON t.oid = k.contypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE k.contype = 'c' AND own.part IS NULL AND NOT EXISTS (
  SELECT FROM over o JOIN pg_catalog.pg_type d ON d.oid = o.type WHERE o.base = t.oid
    AND (EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c
        ON c.oid = a.attrelid AND (a.atttypid = d.typarray OR c.relkind = 'c')
        WHERE a.atttypid IN (d.oid, d.typarray))
      OR EXISTS (SELECT FROM pg_catalog.pg_range r WHERE r.rngsubtype = d.oid)))
ORDER BY n.nspname, t.typname, k.conname
"""
#: Values of one column that are tried at most: half as many end some lists of labels too soon.
MOST = 16
#: A CHECK with more characters than this is not searched for values to try, as that takes time with
#: the square of its length. Lists of some hundred labels are shorter.
_READ = 20_000
_COMPARING = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.ArrayContainedBy, exp.ArrayContainsAll),
)
#: A step beyond an open bound, by category of the column's type.
_STEPS = {"N": "1", "D": "interval '1 day'", "T": "interval '1 hour'"}
#: Further values to try, by category or name of a column's type, for CHECKs of what no model holds,
#: such as a length. Numbers and words come from the CHECK.
_SHAPES = {
    "A": ["array_fill({column}[1], ARRAY[{size}])"],
    "N": ["{column} * {size}"],
    "S": ["upper({column})", "left({column}, {size})", "rpad({column}, {size}, 'x')"],
    "bytea": ["substring(sha256({column}) || repeat('x', {size})::bytea from 1 for {size})"],
    "jsonb": ["'[]'", "jsonb_build_object({word}, {other})"],
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value to try."""

    column: str
    text: str  # SQL of the value
    reads: frozenset[str] = frozenset()  # columns that the value itself is computed from
    equal: bool = False  # whether the CHECK says that the column equals it


@dataclass(frozen=True, slots=True)
class Rule:
    """A CHECK on the rows of one table, and the changes that a repair may make."""

    table: Table
    constraint: str  # the CHECK, for people: ``table: constraint`` or ``domain: constraint``
    place: sql.Composable  # the table, or the one partition that the CHECK was declared on
    # SQL condition that selects the rows of `place` among those of the table.
    within: sql.Composable
    # SQL of the CHECK; a row breaks it only where it gives FALSE, not NULL.
    condition: sql.Composable
    uses: frozenset[str]  # columns that the CHECK reads
    columns: tuple[str, ...]  # columns that a repair may change freely
    # Foreign keys that a repair may set to NULL or point to another row.
    references: tuple[ForeignKey, ...]
    # Columns of UNIQUE sets, which a repair may change as far as rows stay distinct; empty unless
    # `columns` is.
    unique: tuple[str, ...]
    values: tuple[Value, ...]  # values to try, cut out of the text of the CHECK

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns whose values say what kind of row it is: a repair had better keep them."""
        return tuple(name for name in self.columns if is_label(self.table, name))

    @property
    def computes(self) -> bool:
        """Whether the rule says that a column is computed from others: ``gross = net + tax``."""
        return any(item.equal and item.reads for item in self.values)

    @property
    def kept(self) -> sql.Composable:
        """Condition of the table's rows that keep the rule, or that it does not concern."""
        return build("(NOT {} OR ({})) IS NOT FALSE", self.within, self.condition)

    @property
    def broken(self) -> sql.Composable:
        """Condition of the table's rows that break the rule."""
        return build("(NOT {} OR ({})) IS FALSE", self.within, self.condition)

    @property
    def broken_rows(self) -> sql.Composable:
        """Query of the rows that break the rule.

        It reads `place` alone: reading all partitions for the CHECK of one of them takes long.
        """
        broken = build("{} AND ({}) IS FALSE", self.within, self.condition)
        return rows.rows_of(self.place, broken)

    def breaks(self, clone: Rows) -> bool:
        """Whether some row breaks the rule."""
        return bool(clone.first("SELECT EXISTS ({})", self.broken_rows)[0])

    def batches(self, clone: Rows, most: int) -> list[tuple[int, int]]:
        """Ranges of blocks with about ``most`` broken rows each; none if no row breaks the rule."""
        count, blocks = clone.first(
            "SELECT count(*), 1 + max(split_part(ltrim(id::text, '('), ',', 1)::int8)"
            " FROM ({}) AS broken",
            self.broken_rows,
        )
        size = -(-(blocks or 0) // max(1, -(-count // most)))
        return [(start, start + size) for start in range(0, blocks or 0, size or 1)]

    def share(self, clone: Rows) -> float:
        """Share of the rows that break the rule, among those that it concerns."""
        query = "SELECT coalesce(avg((({}) IS FALSE)::int), 0)::float8 FROM {} WHERE {}"
        return float(clone.first(query, self.condition, self.place, self.within)[0])

    def without(self, fixed: Collection[str]) -> Rule:
        """The rule where some columns, all references and UNIQUE columns must stay."""
        free = tuple(name for name in self.columns if name not in fixed)
        return replace(self, columns=free, references=(), unique=())


def is_label(table: Table, name: str) -> bool:
    """Whether a column's values say what kind of row it is: enums, texts, truth values."""
    type_ = table.column(name).type
    return type_.kind == "e" or (type_.kind == "b" and type_.category in "SB")


def find(clone: Rows) -> tuple[dict[str, tuple[sql.Composable, str, str]], list[Rule]]:
    """The CHECKs that rows may break, and what they demand of each table.

    The former by the constraint's name for people: ``ALTER …``, its own name, and what makes it.
    """
    made: dict[str, tuple[sql.Composable, str, str]] = {}
    found: list[Rule] = []
    checks = clone.ask_all(_TABLE_CHECKS)
    over = [table for table in clone.tables if any(c.type.domain for c in table.columns)]
    domains = clone.ask_all(_DOMAIN_CHECKS, over)
    for table in clone.tables:
        for schema, name, constraint, definition, text, columns, partition in checks[table.name]:
            label, place = f"{schema}.{name}: {constraint}", build("{}", TableName(schema, name))
            made[label] = build("ALTER TABLE {}", place), constraint, definition
            where = label, place, rows.within(partition), rows.raw(text)
            found.append(_rule(clone, table, where, columns, text))
        for schema, domain, name, definition, text, columns, plain in domains[table.name]:
            label = f"{schema}.{domain}: {name}"
            if columns:
                made[label] = build("ALTER DOMAIN {}", TableName(schema, domain)), name, definition
            for column in columns:
                # Read as its plain type: operators of enums and arrays do not take domains.
                read = "(SELECT {} FROM (SELECT {}::{}) AS given(value))"
                condition = build(read, rows.raw(text), column, rows.raw(plain))
                where = label, build("{}", table.name), rows.TRUE, condition
                found.append(_rule(clone, table, where, [column], text, column))
    return made, found


def _rule(
    clone: Rows,
    table: Table,
    where: tuple[str, Any, Any, Any],
    uses: Collection[str],
    text: str,
    value: str | None = None,
) -> Rule:
    """The rule with the columns that a repair may change; VALUE of a domain is column `value`."""
    bases = rows.bases(table, uses)
    hung = {name for name in bases if (table.name, name) in clone.referred}
    free = tuple(name for name in bases if rows.is_free(table, name))
    unique = () if free else tuple(n for n in bases if rows.is_movable(table, n) and n not in hung)
    tied = {name for item in table.unique_sets for name in item.columns} | hung
    keys = [name for key in table.foreign_keys for name in key.columns]
    tied |= {name for name in keys if keys.count(name) > 1}
    references = tuple(
        key
        for key in table.foreign_keys
        if set(key.columns) & set(bases) and not tied & set(key.columns)
    )
    spoken = tuple(values(table, text, free or unique, value))
    return Rule(table, *where, frozenset(uses), free, references, unique, spoken)


def guarded(clone: Rows, rule: Rule, number: int) -> Rule:
    """The rule, evaluated by a function that gives FALSE where the CHECK raises an error.

    The function is temporary, so the session's end drops it; ``number``, different for every rule,
    is part of its name. A CHECK that reads no column is the same for all rows and stays as it is.
    """
    columns = [column.name for column in rule.table.columns if column.name in rule.uses]
    if not columns:
        return rule
    name = sql.Identifier("pg_temp", f"privbench rule {number}")
    body = build(
        # PL/pgSQL has a variable "found", which a column may be called too.
        "#variable_conflict use_column\n"
        "BEGIN RETURN (SELECT {} FROM (SELECT {}) AS {}({})); EXCEPTION"
        " WHEN data_exception OR raise_exception OR integrity_constraint_violation"
        " THEN RETURN false; END",
        rule.condition,
        [sql.SQL(f"${place}") for place in range(1, len(columns) + 1)],
        rule.table.name.name,
        columns,
    )
    types = [rows.raw(rule.table.column(column).type.sql) for column in columns]
    made = "CREATE FUNCTION {}({}) RETURNS boolean LANGUAGE plpgsql STABLE AS {}"
    clone.run(made, name, types, sql.Literal(body.as_string(clone.connection)))
    return replace(rule, condition=build("{}({})", name, columns))


def values(
    table: Table, text: str, columns: Collection[str], stands_for: str | None = None
) -> list[Value]:
    """Values to try in a row that breaks a CHECK, by column.

    ``text`` is the CHECK as the target's catalog prints it. In a domain's CHECK, VALUE means the
    column ``stands_for``.

    >>> from privbench.schema import Column, ColumnType, TableName
    >>> names = [Column(name, 1, ColumnType("integer", "int4", category="N")) for name in "abc"]
    >>> table = Table(TableName("public", "t"), tuple(names))
    >>> found = values(table, "((a = (b + c)) OR (a > 7))", ["a"])
    >>> [item.text for item in found][:3]
    ['(b + c)', '7', '(7) + 1']
    >>> values(table, "((a % 1000003) = 2)", ["a"])[0].text
    'a - a % 1000003 + 2'
    """
    tree = _parsed(text, stands_for)
    compared = [*_multiples(tree, table), *_compared(tree, table)]
    fillings = list(_fillings(tree))
    sources = [text, *(column.default for column in table.columns if column.default)]
    found: list[Value] = []
    for name in columns:
        made = [item for item in compared if item.column == name]
        made += _of_column(table.column(name), fillings)
        judged = (item for item in dict.fromkeys(made) if computes(item.text, sources))
        found += islice(judged, MOST)
    return found


def _parsed(text: str, stands_for: str | None) -> exp.Expr:
    """The tree of a CHECK, with a column in place of VALUE; NULL where sqlglot cannot read it."""
    tree = expression_tree(text) if len(text) <= _READ else None
    if tree is None:
        return exp.null()
    if stands_for is not None:
        for column in tree.find_all(exp.Column):
            column.set("this", exp.to_identifier(stands_for, quoted=True))
    return tree


def _fillings(tree: exp.Expr) -> Iterator[dict[str, str]]:
    """Texts for ``{size}``, ``{word}`` and ``{other}``: numbers of the CHECK and its strings."""
    literals = list(tree.find_all(exp.Literal, bfs=False))
    sizes = [item.name for item in literals if item.is_int and 0 < int(item.name) < 10_000]
    texts = [item.sql("postgres") for item in literals if item.is_string][:4]
    pairs = [(one, other) for one in texts for other in (*texts, "'x'") if one != other]
    for size, (word, other) in product(sizes[:4] or ["1"], pairs or [("'x'", "'x'")]):
        yield {"size": size, "word": word, "other": other}


def _of_column(column: Column, fillings: Sequence[dict[str, str]]) -> Iterator[Value]:
    """The default, truth values, and shapes of a column's type."""
    if column.default and column.sequence is None and not column.generated:
        yield Value(column.name, column.default)
    if column.type.base == "bool":
        yield from (Value(column.name, text) for text in ("true", "false"))
    shapes = [s for kind in (column.type.category, column.type.base) for s in _SHAPES.get(kind, ())]
    quoted = exp.to_identifier(column.name, quoted=True).sql("postgres")
    for shape, filling in product(shapes, fillings):
        text = shape.format(column=quoted, **filling)
        yield Value(column.name, text, frozenset({column.name}))


def _compared(tree: exp.Expr, table: Table) -> Iterator[Value]:
    """The other side of every comparison with a column; each item of a list."""
    known = {column.name: column for column in table.columns}
    for node in tree.find_all(*_COMPARING, bfs=False):
        for mine, other, less in ((node.left, node.right, exp.LT), (node.right, node.left, exp.GT)):
            side = bare(mine)
            column = known.get(side.name) if isinstance(side, exp.Column) else None
            if column is None:
                continue
            listed = bare(other.this) if isinstance(other, exp.Any) else None
            items = listed.expressions if isinstance(listed, exp.Array) else [other]
            for item in items:
                value = item.sql("postgres")
                named = {found.name for found in item.find_all(exp.Column)}
                reads = frozenset(named.intersection(known))
                equal = isinstance(node, exp.EQ) and listed is None
                yield Value(column.name, value, reads, equal)
                step = _STEPS.get(column.type.category)
                if isinstance(node, (exp.LT, exp.GT)) and step:
                    sign = "-" if isinstance(node, less) else "+"
                    yield Value(column.name, f"({value}) {sign} {step}", reads)


def _multiples(tree: exp.Expr, table: Table) -> Iterator[Value]:
    """Where a column must leave a remainder, a value that does, made of the old one."""
    unique = {name for item in table.unique_sets for name in item.columns}
    known = {column.name for column in table.columns}
    for node in tree.find_all(exp.EQ, bfs=False):
        of, rest = bare(node.left), bare(node.right)
        if not isinstance(of, exp.Mod) or not isinstance(rest, exp.Literal):
            continue
        column, factor = bare(of.this), bare(of.expression)
        if isinstance(column, exp.Column) and column.name in known:
            mine, by, left = (item.sql("postgres") for item in (column, factor, rest))
            # Close by, or a multiple, so that different rows stay different.
            moved = f"{mine} * {by}" if column.name in unique else f"{mine} - {mine} % {by}"
            yield Value(column.name, f"{moved} + {left}", frozenset({column.name}), equal=True)
