"""What the tests of encoders share: types, tables, readers, answers of a release, keys, loading."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa

from privbench.config import ColumnConfig
from privbench.encoding.base import PartNeed, Step
from privbench.encoding.bounds import Bounds, BoundsNeed
from privbench.encoding.keys.columns import role_of
from privbench.encoding.keys.generate import fill_keys, generate_keys
from privbench.encoding.keys.references import TableRows
from privbench.encoding.registry import codec_from_json, reader
from privbench.encoding.scale import scale_of
from privbench.postgres.copy_in import copy_rows
from privbench.privacy.data import Cells, Grid
from privbench.rng import generator
from privbench.rules.facts import with_rules
from privbench.schema import Check, Column, ColumnType, ForeignKey, Table, TableName, Unique

INT2, INT4, INT8 = (
    ColumnType(name, base, category="N")
    for name, base in (("smallint", "int2"), ("integer", "int4"), ("bigint", "int8"))
)
FLOAT4 = ColumnType("real", "float4", category="N")
FLOAT8 = ColumnType("double precision", "float8", category="N")
NUMERIC = ColumnType("numeric", "numeric", category="N")
MONEY = ColumnType("money", "money", category="N")
DATE = ColumnType("date", "date", category="D")
STAMP = ColumnType("timestamp without time zone", "timestamp", category="D")
STAMPZ = ColumnType("timestamp with time zone", "timestamptz", category="D")
INTERVAL = ColumnType("interval", "interval", category="T")
BOOL = ColumnType("boolean", "bool", category="B")
UUID = ColumnType("uuid", "uuid")
TEXT = ColumnType("text", "text", category="S")


def numeric(precision, scale):
    text = f"numeric({precision},{scale})"
    return ColumnType(text, "numeric", category="N", precision=precision, scale=scale)


def varchar(length):
    text = f"character varying({length})"
    return ColumnType(text, "varchar", category="S", length=length)


def char(length):
    return ColumnType(f"character({length})", "bpchar", category="S", length=length)


def col(name, type_=INT4, null=False, **more):
    return Column(name, 1, type_, not_null=not null, **more)


def table(key, *columns, primary=(), uniques=(), keys=(), checks=(), **more):
    """A table; keys are triples of columns, parent and columns there."""
    name = TableName("public", key)
    plain = Table(
        name,
        tuple(replace(column, position=i + 1) for i, column in enumerate(columns)),
        primary_key=Unique(f"{key}_pk", tuple(primary), primary=True) if primary else None,
        uniques=tuple(Unique(f"{key}_u{i}", tuple(item)) for i, item in enumerate(uniques)),
        foreign_keys=tuple(
            ForeignKey(f"{key}_f{i}", name, tuple(mine), TableName("public", other), tuple(theirs))
            for i, (mine, other, theirs) in enumerate(keys)
        ),
        checks=tuple(
            Check(f"k{i}", item) if isinstance(item, str) else item for i, item in enumerate(checks)
        ),
        **more,
    )
    return with_rules(plain)


def modelled(table):
    """Columns that need a reader, in their order."""
    return tuple(c.name for c in table.columns if role_of(table, c) == "modelled")


def plan(type_, *checks, name="c", config=None, delta=0.0, default=None, null=True, **more):
    """The reader of the only column of a table."""
    item = table("t", col(name, type_, null, default=default), checks=checks, **more)
    return reader(item.columns[0], item, config or ColumnConfig(), delta)


#: Labels of the parts of types that are taken apart, by the beginning of a type's name.
LABELS = {
    "inet": {"kind": ("4/24", "6/64"), "wide": ("10.1.0.0/16",), "narrow": ("2001:db8:1::/48",)},
    "cidr": {"kind": ("4/32", "6/8"), "wide": ("10.1.0.0/16",), "whole": ("10.1.2.0/24",)},
    "maca": {"maker": ("00:1a:2b",)},
    "ltre": {"wide": ("a", "b"), "narrow": ("a.c",), "whole": ("b", "a.c.d")},
}


def release(plan, rng, **given):
    """Answers to all needs of a reader: those that are given, else any that may come."""
    answers = {}
    for need in plan.needs:
        if need.attribute in given:
            answers[need.attribute] = given[need.attribute]
        elif isinstance(need, BoundsNeed):
            low, high = sorted(int(point) for point in rng.choice(need.candidates, 2))
            answers[need.attribute] = Bounds(low, high)
        elif isinstance(need, PartNeed) and need.cycle:
            law = rng.dirichlet(np.full(len(need.choices) + 1, 0.2)) if rng else ()
            answers[need.attribute] = Step(law=tuple(map(float, law)))
        elif isinstance(need, PartNeed):
            answers[need.attribute] = Step(rng.choice([None, *need.choices]))
        elif need.grid:
            answers[need.attribute] = tuple(str(point) for point in rng.integers(-1000, 1000, 3))
        elif (labels := LABELS.get(plan.column.type.base[:4])) is not None:
            answers[need.attribute] = labels.get(need.attribute.rpartition("\x1f")[2], ())
        elif any(scale_of(part) for part in plan.column.type.parts):
            answers[need.attribute] = ("-3", "17")
        else:
            answers[need.attribute] = ("a,c", 'a"b')
    return answers


def stored(codec):
    """The codec as a model's file gives it back; of its type the file has what is needed."""
    again = codec_from_json(json.loads(json.dumps(codec.to_json())))
    assert again == replace(codec, type=again.type)
    return again


def codes_of(codec, attributes):
    """Codes of what was read, after any recoding."""
    codes = {}
    for name in codec.domains:
        item, recoding = attributes[name], codec.recodings.get(name)
        if isinstance(item, Cells):
            codes[name] = item._codes
        elif isinstance(item, Grid):
            codes[name] = recoding.apply(item._values)
        else:
            codes[name] = recoding.apply(item._codes, item._labels)
    return codes


def copy_in(connection, relation, columns):
    """COPY rows into a table; the server checks every value."""
    copy_rows(connection, relation, list(columns), [pa.table(columns)])


def ints(values):
    return pa.array(values, pa.int32())


def dates(days):
    """Dates from days since 1970."""
    return ints(np.asarray(days).astype(np.int32)).cast(pa.date32())


def rows_of(columns, names):
    return list(zip(*(columns[name].to_pylist() for name in names), strict=True))


def fill(item, rows, decoded=(), parents=(), keys=None, seed=1, **more):
    """The keys of one table; `keys` are the values that all its keys refer to."""
    work = TableRows(item, dict(decoded), dict(parents), generator(seed), rows, **more)
    return fill_keys(work, lambda key: keys)


def owned(child, owners, edges, columns=(), **more):
    """The rows of a table whose only reference leads to a table of so many owners."""
    (key,) = child.foreign_keys
    parent = table(key.ref_table.name, col("id"), primary=("id",))
    rows = {parent.key: owners, child.key: len(edges)}
    drawn = {child.key: {key.name: edges}}
    return generate_keys([parent, child], {child.key: dict(columns)}, drawn, rows, seed=1, **more)[
        child.key
    ]
