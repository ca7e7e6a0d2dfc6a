"""Public knowledge: what CHECKs say, what the config may ask, which columns are keys."""

from contextlib import suppress
from dataclasses import fields

import pytest
from bounded import bounded
from columns import (
    DATE,
    FLOAT8,
    INT4,
    INTERVAL,
    MONEY,
    STAMP,
    STAMPZ,
    TEXT,
    UUID,
    col,
    modelled,
    numeric,
    plan,
    table,
    varchar,
)
from psycopg import sql
from sql_files import cases, sql_of

from privbench.config import ColumnConfig
from privbench.encoding.base import CategoriesNeed
from privbench.encoding.filled import refuse_unknown
from privbench.encoding.keys.columns import calendar, role_of
from privbench.encoding.registry import table_coverage
from privbench.errors import ConfigError, SchemaError
from privbench.rules.facts import allowed, column_rules, orders
from privbench.schema import Column, ColumnType, Index

MOOD = ColumnType("mood", "mood", kind="e", labels=("sad",))


def checked(*checks, others=""):
    item = table("t", *(col(name, null=True) for name in ("c", *others)), checks=checks)
    return item.columns[0], item


def told(rule):
    """What a rule says of a column, in words."""
    parts = {part.name: (getattr(rule, part.name), part.default) for part in fields(rule)[4:]}
    return ", ".join(f"{name} {value}" for name, (value, none) in parts.items() if value != none)


def unread(item):
    return [rule.text for rule in item.rules if rule.kind == "expression"]


@pytest.mark.parametrize(("limits", "text"), cases(__file__, "limits_of_checks"))
def test_column_limits_of_simple_checks_are_read(limits, text):
    column, item = checked(text)
    assert ("; ".join(map(told, column_rules(item, column))) or "none") == limits
    assert limits == "none" or unread(item) == []


#: sqlglot would read these for hours.
ENDLESS = [
    f"(c = ANY ({'ARRAY[' * 60}1{']' * 60}))",
    f"(c > {'int4(' * 60}1{')' * 60})",
    f"((c <> ']]]]]]]]') AND (c = ANY ({'ARRAY[' * 60}1{']' * 60})))",
]


@pytest.mark.parametrize("text", [*sql_of(__file__, "unread_checks").splitlines(), *ENDLESS])
def test_checks_that_are_not_understood_are_rules_of_their_whole_text(text):
    column, item = checked(text)
    assert column_rules(item, column) == ()
    assert unread(item) == [text]
    assert table_coverage(item, {}, 0.0)[-1].why == "CHECK k0 is not understood"


_N = 100_000
#: A type and a CHECK, as PostgreSQL prints it or a model's header states it: each is too much for a
#: naive reader.
HEAVY = [
    (TEXT, f"(length(c) < {'9' * _N})"),
    (TEXT, "(length(c) < '\u00b2')"),
    (TEXT, f"(c {'IS NULL OR (c ' * 90}= 'a'{')' * 90})"),
    (INT4, f"(c = 1{''.join(f' OR c = {n}' for n in range(2000))})"),
    (INT4, f"(c > 1{''.join(f' AND c <> {n}' for n in range(2000))})"),
    (INT4, f"(c < {'9' * _N})"),
    (INT4, f"(c > {'- ' * 2000}1)"),
    *((kind, f"(c < {text})") for kind in (INT4, numeric(6, 2), MONEY, FLOAT8)
      for text in ("1e99999999", "-1e99999999", "0e99999999", "1e-99999999", "1e999999999999999")),
    *((kind, f"(c < '{text}')") for kind in (DATE, STAMP, STAMPZ, INTERVAL) for text in (
        "T" * _N, "2020-01-01T+" + "9" * _N, "9" * _N, "9" * _N + "-01-01", "9" * _N + ":00",
        "1 " * _N, "1" + " " * _N, "2020-01-01T00:00:00+" + "9" * 70, "9" * 90 + " years",
    )),
]  # fmt: skip


def test_no_check_takes_longer_than_its_length():
    def read():
        for type_, text in HEAVY:
            with suppress(ConfigError):
                plan(type_, text)

    bounded(read)


def test_a_conjunction_may_say_an_order_beside_a_limit():
    column, item = checked("((c > 0) AND (c <= d) AND (e IS NOT NULL))", others="de")
    assert [(order.columns, order.strict) for order in orders(item)] == [(("c", "d"), False)]
    assert unread(item) == []
    assert allowed(column_rules(item, column)) is None


@pytest.mark.parametrize(
    ("type_", "checks", "ends"),
    [
        (INT4, ["(c >= 1.5)", "(c < 9.5)"], (2, 9)),
        (INT4, ["(c > 1.5)", "(c <= 9.5)"], (2, 9)),
        (INT4, ["(c > 1)", "(c < 9)"], (2, 8)),
        (numeric(6, 2), ["(c > 0.005)", "(c < 0.999)"], (1, 99)),
        (DATE, ["(c > '1970-01-02'::date)", "(c < '1970-01-05'::date)"], (2, 3)),
        (MONEY, ["(c >= '$1.00'::money)", "(c <= (2)::money)"], (100, 200)),
        # Beyond every number are the ends of the type.
        (INT4, ["(c >= 0)", "(c <= 1e900000)"], (0, 2**31 - 1)),
    ],
)
def test_ends_of_checks_are_exact_on_the_grid_of_a_type(type_, checks, ends):
    found = plan(type_, *checks).range
    assert (found.lo, found.hi, found.settled) == (*ends, ends[1] < 1000)


def test_what_ranges_leave_to_be_released():
    assert plan(FLOAT8, config=ColumnConfig(min=0, max=1)).range.specials == ("nan",)
    assert plan(FLOAT8, "(c >= 0)", "(c <= 1)").range.specials == ()
    assert plan(FLOAT8, "(c >= 0)").range.specials == ("nan", "inf")
    need, _ = plan(INT4, "(c >= 100)").needs
    assert need.candidates[0] == 100
    wide = plan(numeric(10, 2), "((c >= 0) AND (c <= 100))").needs[0]
    assert (wide.default.lo, wide.default.hi) == (0, 10001)
    assert wide.candidates[[0, -1]].tolist() == [0, 10000]
    # With bins nothing is released.
    binned = plan(INT4, config=ColumnConfig(min=5, max=89, bins=20))
    assert binned.needs == ()
    assert binned.finish({}).recoding.edges == tuple(range(5, 91))


@pytest.mark.parametrize(
    ("type_", "config", "message"),
    [
        (TEXT, {"kind": "categories"}, r"public\.t\.c: .*delta > 0.*values"),
        (INT4, {"kind": "categories"}, "delta > 0"),
        (INT4, {"kind": "text"}, "does not fit the type integer"),
        (TEXT, {"kind": "range", "min": 1, "max": 2}, "does not fit the type text"),
        (ColumnType("jsonb", "jsonb"), {"values": ["a"]}, "does not fit"),
        (INT4, {"faker": "email"}, "'faker' does not fit"),
        *((TEXT, {"faker": name}, "there is no provider")
          for name in ("no_such_thing", "__class__", "pydict")),
        (INT4, {"values": ["x"]}, "'x' is not valid"),
        (INT4, {"min": "x", "max": 3}, "'x' is not a value of type integer"),
        (INT4, {"min": 5, "max": 3}, "holds no value"),
        (STAMP, {"min": "20200101", "max": "2020-12-31"}, "'20200101' is not a value"),
        (DATE, {"min": "NaT", "max": "2020-12-31"}, "'NaT' is not a value"),
        (MOOD, {"values": ["glad"]}, "'glad' is not valid"),
        (varchar(2), {"values": ["abc"]}, "'abc' is not valid"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_column_is_refused(type_, config, message):
    with pytest.raises(ConfigError, match=message):
        plan(type_, config=ColumnConfig(**config))


@pytest.mark.parametrize("text", ["-1e900000", "0e900000"])
def test_checks_that_no_value_meets_are_refused(text):
    with pytest.raises(ConfigError, match="the range holds no value"):
        plan(INT4, "(c >= 0)", f"(c < {text})")


def test_unknown_types():
    strange = ColumnType("strange", "strange")
    assert plan(strange).describe()[0] == "NULL"
    needed = Column("c", 1, strange, not_null=True)
    with pytest.raises(SchemaError, match=r"public\.t\.c: .*DEFAULT"):
        refuse_unknown("public.t", needed)
    assert plan(strange, null=False, default="x()").finish({}).omitted


@pytest.mark.parametrize(
    ("more", "attributes", "listed"),
    [
        ({}, 4, True),
        ({"config": ColumnConfig(pieces=False)}, 3, True),
        ({"delta": 0.0}, 3, False),
        ({"config": ColumnConfig(kind="text")}, 2, False),
        ({"uniques": [("c",)]}, 4, True),
        ({"name": "email"}, 2, False),
        ({"name": "city"}, 2, True),
    ],
)
def test_parts_of_a_text_follow_delta_name_and_uniqueness(more, attributes, listed):
    found = plan(TEXT, **{"delta": 1e-9, **more})
    assert len(found.attributes) == attributes
    assert [type(need) for need in found.needs] == [CategoriesNeed] * listed


def test_labels_of_a_text_are_read_with_delta_alone():
    assert plan(TEXT, config=ColumnConfig(per_unit=5), delta=1e-9).needs[0].per_unit == 5
    found = plan(TEXT, config=ColumnConfig(pieces=False))
    expressions = [text.as_string(None) for text, _ in found.select(sql.Identifier("c"))]
    assert expressions == [
        'CASE WHEN pg_catalog.octet_length("c"::pg_catalog.text) <= 64 THEN "c"::pg_catalog.text'
        ' ELSE pg_catalog.left("c"::pg_catalog.text, 64) END',
        'pg_catalog.char_length("c"::pg_catalog.text)::bigint',
    ]


@pytest.mark.parametrize(
    ("type_", "check", "edges"),
    [
        (ColumnType("bytea", "bytea"), "octet_length(c) = 4", (4, 5)),
        (ColumnType("bytea", "bytea"), "(c IS NULL) OR (length(c) <= 1)", (0, 1, 2)),
        (ColumnType("bit varying", "varbit"), "bit_length(c) > 2 AND bit_length(c) < 5", (3, 4, 5)),
        (ColumnType("integer[]", "_int4", category="A", parts=(INT4,)),
         "cardinality(c) >= 2 AND array_length(c, 1) <= 3", (2, 3, 4)),
    ],
)  # fmt: skip
def test_sizes_are_those_that_checks_allow(type_, check, edges):
    reader = plan(type_, check)
    size = getattr(reader, "parts", [reader])[0]
    assert size.codec.edges == edges


def test_indexed_text_stays_within_an_entry():
    for method, greatest in (("btree", 2400), ("gin", None)):
        index = Index("i", f"CREATE INDEX i ON public.t USING {method} (c)", columns=("c",))
        assert plan(TEXT, indexes=(index,)).greatest == greatest


def test_role_of_every_kind_of_column():
    item = table(
        "t", col("id"), col("p", null=True), col("line"), col("code", UUID, null=True),
        col("email", TEXT, null=True), col("twice", null=True, generated="s"),
        col("serial", null=True, default="nextval('s'::regclass)"),
        primary=("p", "line"), uniques=[("code",), ("email",), ("serial",)],
        keys=[(("p",), "p", ("id",))],
    )  # fmt: skip
    assert {column.name: role_of(item, column) for column in item.columns} == {
        "id": "modelled", "p": "reference", "line": "minted", "code": "minted",
        "email": "modelled", "twice": "generated", "serial": "minted",
    }  # fmt: skip
    assert modelled(item) == ("id", "email")
    # A year beside the keys of two parents is no number of a row.
    keys = [((name,), name, ("id",)) for name in ("p", "q")]
    for name, role in (("year", "modelled"), ("line", "minted")):
        item = table("t", col("p"), col("q"), col(name), primary=("p", "q", name), keys=keys)
        assert role_of(item, item.column(name)) == role
    # Times are keys that mean something.
    item = table("t", col("at", STAMPZ), col("id"), primary=("at",))
    assert role_of(item, item.column("at")) == "modelled"


@pytest.mark.parametrize(
    ("columns", "uniques", "days"),
    [
        ((col("id"), col("day", DATE)), [("day",)], "day"),
        ((col("date_key"), col("name", TEXT)), [], "date_key"),
        ((col("day_id", default="nextval('s'::regclass)"), col("name", TEXT)), [], None),
        ((col("id"), col("day", DATE)), [("id", "day")], None),
        ((col("id"), col("day", DATE, generated="s")), [("day",)], None),
        ((col("birthday"), col("day", DATE)), [], None),
    ],
)
def test_calendars_are_tables_whose_rows_are_days(columns, uniques, days):
    item = calendar(table("t", *columns, primary=(columns[0].name,), uniques=uniques))
    assert (item.name if item else None) == days
