"""Public knowledge: CHECK constraints, semantic names, shapes, and what the config may ask."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.config import ColumnConfig
from privbench.encoding.base import CategoriesNeed
from privbench.encoding.bounds import Bounds, BoundsNeed
from privbench.encoding.checks import (
    Limits,
    Order,
    allowed,
    column_limits,
    column_orders,
    unread_checks,
)
from privbench.encoding.column_names import by_name
from privbench.encoding.keys.columns import role_of
from privbench.encoding.registry import reader, table_coverage
from privbench.encoding.surrogate_text import PATTERNS, SHAPES, made_text, shapes
from privbench.errors import ConfigError, SchemaError
from privbench.rng import generator
from privbench.schema import Check, Column, ColumnType, ForeignKey, Index, Table, TableName, Unique

TEXT = ColumnType("text", "text", category="S")
INT = ColumnType("integer", "int4", category="N")


def modelled(table):
    """Columns that need a reader, in their order."""
    return tuple(c.name for c in table.columns if role_of(table, c) == "modelled")


def one(type_, *checks, name="c", **more):
    column = Column(name, 1, type_)
    found = tuple(Check(f"k{i}", text) for i, text in enumerate(checks))
    return column, Table(TableName("public", "t"), (column,), checks=found, **more)


def plan(type_, config=None, delta=0.0, *checks, name="c", **more):
    column, table = one(type_, *checks, name=name, **more)
    return reader(column, table, config or ColumnConfig(), delta)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("((c >= 0) AND (c <= 120))", [Limits(low="0"), Limits(high="120")]),
        ("(c BETWEEN 1 AND 5)", [Limits(low="1", high="5")]),
        ("(c > (0)::numeric)", [Limits(low="0", low_open=True)]),
        ("((0)::numeric < c)", [Limits(low="0", low_open=True)]),
        ("(c >= '-5'::integer)", [Limits(low="-5")]),
        ("(c >= (-5))", [Limits(low="-5")]),
        ("(d < '2020-01-01'::date)", []),
        ("(c <= '2020-01-01'::date)", [Limits(high="2020-01-01")]),
        ("(c = ANY (ARRAY['a'::text, 'b'::text]))", [Limits(values=("a", "b"))]),
        (
            "((c)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))",
            [Limits(values=("a", "b"))],
        ),
        ("((c)::text = ANY ('{a,b}'::text[]))", [Limits(values=("a", "b"))]),
        ("((c = 1) OR (c = 2))", [Limits(values=("1", "2"))]),
        ("((c IS NULL) OR (c > 3))", [Limits(low="3", low_open=True)]),
        ("(char_length((c)::text) <= 20)", [Limits(max_length=20)]),
        ("(length(c) > 2)", [Limits(min_length=3)]),
        ("(c <> ''::text)", [Limits(min_length=1)]),
        ("CHECK (c > 0) NOT VALID", [Limits(low="0", low_open=True)]),
    ],
)
def test_simple_checks_are_read(text, expected):
    column, table = one(INT, text)
    assert list(column_limits(table, column)) == expected
    if expected:
        assert unread_checks(table) == ()


@pytest.mark.parametrize(
    "text",
    [
        "((c IS NOT NULL) OR (c > 0))", "((c % 2) = 0)", "(c <> 3)", "(c ~ '^a'::text)",
        "(c < CURRENT_DATE)", "((c > 0) OR (d > 0))",
        "f(c)", "((c > 0) = true)", "((", "(c > d + 1)",
    ],
)  # fmt: skip
def test_other_checks_are_reported(text):
    column, table = one(INT, text)
    assert column_limits(table, column) == ()
    assert [check.expression for check in unread_checks(table)] == [text]
    assert table_coverage(table, {}, 0.0)[-1].why == "CHECK k0 is not understood"


def test_orders_and_mixed_conjunctions():
    column, table = one(INT, "((c > 0) AND (c <= d) AND (e IS NOT NULL))")
    assert column_orders(table) == (Order("c", "d", False),)
    assert unread_checks(table) == ()
    assert allowed(column_limits(table, column)) is None


@pytest.mark.parametrize(
    ("type_", "checks", "ends"),
    [
        (INT, ["(c >= 1.5)", "(c < 9.5)"], (2, 9)),
        (INT, ["(c > 1.5)", "(c <= 9.5)"], (2, 9)),
        (INT, ["(c > 1)", "(c < 9)"], (2, 8)),
        (
            ColumnType("numeric(6,2)", "numeric", precision=6, scale=2),
            ["(c > 0.005)", "(c < 0.999)"],
            (1, 99),
        ),
        (
            ColumnType("date", "date"),
            ["(c > '1970-01-02'::date)", "(c < '1970-01-05'::date)"],
            (2, 3),
        ),
        (
            ColumnType("money", "money"),
            ["(c >= '$1.00'::money)", "(c <= (2)::money)"],
            (100, 200),
        ),
    ],
)
def test_check_ends_are_exact_on_the_grid(type_, checks, ends):
    found = plan(type_, None, 0.0, *checks).range
    assert (found.lo, found.hi) == ends
    assert found.settled


def test_nan_stays_possible_where_only_the_config_gives_the_range():
    floats = ColumnType("double precision", "float8")
    assert plan(floats, ColumnConfig(min=0, max=1)).range.specials == ("nan",)
    assert plan(floats, None, 0.0, "(c >= 0)", "(c <= 1)").range.specials == ()
    assert plan(floats, None, 0.0, "(c >= 0)").range.specials == ("nan", "inf")


def test_one_sided_checks_limit_the_candidates():
    (need,) = plan(INT, None, 0.0, "(c >= 100)").needs
    assert need.candidates[0] == 100


@pytest.mark.parametrize(
    ("type_", "config", "delta", "message"),
    [
        (TEXT, ColumnConfig(kind="categories"), 0.0, r"public\.t\.c: .*delta > 0.*values"),
        (INT, ColumnConfig(kind="categories"), 0.0, "delta > 0"),
        (INT, ColumnConfig(kind="text"), 0.0, "does not fit the type integer"),
        (TEXT, ColumnConfig(kind="range", min=1, max=2), 0.0, "does not fit the type text"),
        (ColumnType("jsonb", "jsonb"), ColumnConfig(values=["a"]), 0.0, "does not fit"),
        (INT, ColumnConfig(faker="email"), 0.0, "'faker' does not fit"),
        (TEXT, ColumnConfig(faker="no_such_thing"), 0.0, "there is no provider"),
        (TEXT, ColumnConfig(faker="__class__"), 0.0, "there is no provider"),
        (TEXT, ColumnConfig(faker="pydict"), 0.0, "there is no provider"),
        (INT, ColumnConfig(values=["x"]), 0.0, "'x' is not valid"),
        (INT, ColumnConfig(min="x", max=3), 0.0, "'x' is not a value of type integer"),
        (INT, ColumnConfig(min=5, max=3), 0.0, "holds no value"),
        (
            ColumnType("mood", "mood", kind="e", labels=("sad",)),
            ColumnConfig(values=["glad"]), 0.0, "'glad' is not valid",
        ),
        (
            ColumnType("character varying(2)", "varchar", category="S", length=2),
            ColumnConfig(values=["abc"]), 0.0, "'abc' is not valid",
        ),
    ],
)  # fmt: skip
def test_misfits_are_refused_before_any_budget(type_, config, delta, message):
    with pytest.raises(ConfigError, match=message):
        plan(type_, config, delta)


def test_unknown_types():
    strange = ColumnType("strange", "strange")
    assert plan(strange).describe()[0] == "NULL"
    column = Column("c", 1, strange, not_null=True)
    table = Table(TableName("public", "t"), (column,))
    with pytest.raises(SchemaError, match=r"public\.t\.c: .*DEFAULT"):
        reader(column, table, ColumnConfig(), 0.0)
    with_default = Column("c", 1, strange, not_null=True, default="x()")
    assert reader(with_default, table, ColumnConfig(), 0.0).finish({}).omitted


def test_text_follows_delta_name_and_uniqueness():
    assert [type(need) for need in plan(TEXT, None, 1e-9).needs] == [CategoriesNeed]
    assert plan(TEXT, None, 0.0).needs == ()
    assert len(plan(TEXT, None, 1e-9).attributes) == 3
    assert len(plan(TEXT, None, 0.0).attributes) == 2
    assert len(plan(TEXT, ColumnConfig(kind="text"), 1e-9).attributes) == 2
    unique = plan(TEXT, None, 1e-9, uniques=(Unique("u", ("c",)),))
    assert unique.needs == ()
    assert plan(TEXT, None, 1e-9, name="email").attributes == ("email",)
    assert plan(TEXT, None, 1e-9, name="city").attributes == ("city",)
    assert isinstance(plan(TEXT, None, 1e-9, name="city").needs[0], CategoriesNeed)
    assert plan(TEXT, ColumnConfig(per_unit=5), 1e-9).needs[0].per_unit == 5


def test_no_label_is_read_without_delta():
    expressions = [text.as_string(None) for text, _ in plan(TEXT, None, 0.0).select(_identifier())]
    assert expressions == [
        'pg_catalog.left("c"::pg_catalog.text, 64)',
        'pg_catalog.char_length("c"::pg_catalog.text)::bigint',
    ]


def _identifier():
    from psycopg import sql

    return sql.Identifier("c")


def test_indexed_text_stays_within_an_index_entry():
    index = Index("i", "CREATE INDEX i ON public.t USING btree (c)", columns=("c",))
    found = plan(TEXT, None, 0.0, indexes=(index,))
    assert found.greatest == 2400
    gin = Index("i", "CREATE INDEX i ON public.t USING gin (c)", columns=("c",))
    assert plan(TEXT, None, 0.0, indexes=(gin,)).greatest is None


def test_bounds_between_candidates():
    """Cell i lies between candidates i − 1 and i; the outermost ones end at the last candidate."""
    need = BoundsNeed("c", np.array([0, 10, 100, 1000]), Bounds(0, 100))
    pieces = np.ones(5, np.int64)
    assert need.between(1, 2, pieces, 40) == Bounds(0, 100, 40, (10,))
    assert need.between(2, 2, pieces, 40) == Bounds(10, 100, 40)
    assert need.between(0, 4, pieces, 40) == Bounds(0, 1000, 40, (10, 100))
    assert need.between(0, 0, pieces, 40) == Bounds(0, 1, 40)
    assert need.between(4, 4, pieces, 40) == Bounds(1000, 1001, 40)


@given(
    st.sets(st.integers(-(10**12), 10**12), min_size=1, max_size=30),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_bounds_enclose_their_cells(points, data):
    candidates = np.array(sorted(points))
    need = BoundsNeed("c", candidates, Bounds(0, 100))
    size = len(candidates) + 1
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first, size - 1))
    pieces = np.array(data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)))
    found = need.between(first, last, pieces, 16)
    assert found.lo < found.hi
    assert found.lo == candidates[min(max(first - 1, 0), len(candidates) - 1)]
    assert all(found.lo < edge < found.hi for edge in found.inner)
    assert list(found.inner) == sorted(set(found.inner))
    inside = candidates[(candidates > found.lo) & (candidates < found.hi)]
    assert set(inside.tolist()) <= set(found.inner)


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("email", "email"), ("EmailAddress", "email"), ("e_mail", "email"),
        ("phone_number", "phone_number"),
        ("mobile", "phone_number"), ("first_name", "first_name"), ("LastName", "last_name"),
        ("full_name", "name"), ("address_line_1", "street_address"), ("city", "city"),
        ("website_url", "url"), ("client_ip", "ipv4_private"), ("username", "user_name"),
        ("emailpromotion", None), ("name", None), ("title", None), ("capacity", None),
        ("zip", None),
        ("description", None), ("tip", None),
    ],
)  # fmt: skip
def test_semantic_names(name, provider):
    found = by_name(name)
    assert (found.provider if found else None) == provider


def test_shape_classes_cover_their_names():
    samples = {
        "digits": "0123", "decimal": "-1.50", "email": "a.b@c.de", "url": "https://x.y/z",
        "hex": "deadbeef01", "lower": "straße", "capitalised": "Émile", "upper": "ABC",
        "code": "AB-12/3", "title": "Ann Marie Lee", "sentence": "hello, big world", "other": "a_b",
    }  # fmt: skip
    assert set(samples) == set(SHAPES)
    assert len(PATTERNS) + 1 == len(SHAPES)
    codes = shapes(pa.array([*samples.values(), None]))[:-1]
    assert [SHAPES[code] for code in codes] == list(samples)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(st.sampled_from("aZ0.,@ /#-_&'\n\t:wx"), max_size=9)))
def test_shapes_of_ascii_are_those_of_all_letters(texts):
    """One text beyond ASCII among them takes the patterns over all of Unicode."""
    assert shapes(pa.array([*texts, "é"], pa.string()))[:-1].tolist() == (
        shapes(pa.array(texts, pa.string())).tolist()
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 300))), st.integers(0, 2**32))
def test_made_text_has_the_length_asked_for(pairs, seed):
    kinds = np.array([kind for kind, _ in pairs], dtype=np.int64)
    lengths = np.array([length for _, length in pairs], dtype=np.int64)
    text = made_text(kinds, lengths, generator(seed))
    assert [len(value) for value in text.to_pylist()] == lengths.tolist()
    assert all(value.isascii() and "\x00" not in value for value in text.to_pylist())


def test_made_text_has_the_shape_asked_for():
    kinds = np.repeat(np.arange(len(SHAPES)), 50)
    text = made_text(kinds, np.full(len(kinds), 24), generator(2))
    same = shapes(text) == kinds
    by_kind = {name: float(same[kinds == i].mean()) for i, name in enumerate(SHAPES)}
    by_kind.pop("other")
    assert min(by_kind.values()) > 0.9, by_kind


def test_roles_of_columns():
    parent = TableName("public", "p")
    columns = (
        Column("id", 1, INT, not_null=True),
        Column("p", 2, INT),
        Column("line", 3, INT, not_null=True),
        Column("code", 4, ColumnType("uuid", "uuid")),
        Column("email", 5, TEXT),
        Column("twice", 6, INT, generated="s"),
        Column("serial", 7, INT, default="nextval('s'::regclass)"),
    )
    table = Table(
        TableName("public", "t"),
        columns,
        primary_key=Unique("pk", ("p", "line"), primary=True),
        uniques=(Unique("u1", ("code",)), Unique("u2", ("email",)), Unique("u3", ("serial",))),
        foreign_keys=(ForeignKey("f", TableName("public", "t"), ("p",), parent, ("id",)),),
    )
    roles = {column.name: role_of(table, column) for column in columns}
    assert roles == {
        "id": "modelled", "p": "reference", "line": "minted", "code": "minted",
        "email": "modelled", "twice": "generated", "serial": "minted",
    }  # fmt: skip
    assert modelled(table) == ("id", "email")
