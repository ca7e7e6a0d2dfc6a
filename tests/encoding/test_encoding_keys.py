"""Keys of synthetic rows: every constraint holds, on random schemas and on a real server."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bounded import bounded
from columns import (
    BOOL,
    DATE,
    INT2,
    INT4,
    INT8,
    TEXT,
    UUID,
    char,
    col,
    dates,
    fill,
    ints,
    modelled,
    rows_of,
    table,
    varchar,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.config import ColumnConfig
from privbench.encoding.keys.columns import unkept_indexes
from privbench.encoding.keys.generate import fill_keys, generate_keys, table_order
from privbench.encoding.keys.placeholders import maker_of, of_templates
from privbench.encoding.keys.references import TableRows
from privbench.encoding.registry import reader, table_coverage
from privbench.errors import SchemaError
from privbench.rng import generator
from privbench.rules.facts import folded_uniques, type_with_rules, with_rules
from privbench.schema import ColumnType, Index

WORD = varchar(4)


@pytest.mark.parametrize(
    "texts", [[], ["#"] * 65, ["x" * 2**17], ["# " * 2**12]], ids=["none", "many", "long", "parts"]
)
def test_templates_of_a_stranger_that_fill_the_memory_are_refused(texts):
    with pytest.raises(ValueError, match=r"templates? "):
        of_templates(texts)


def test_templates_take_turns():
    numbers = np.array([5, 0, 1, 2, 3, 4])
    assert of_templates(["a#", "b", "c#"]).make(numbers).to_pylist() == [
        *("c1", "a0", "b", "c0", "a1", "b")
    ]


def verify(tables, made):
    """Every PRIMARY KEY, UNIQUE, NOT NULL and FOREIGN KEY, by brute force."""
    for item in tables:
        found = made[item.key]
        assert all(len(values) == found.rows for values in found.columns.values())
        for column in item.columns:
            assert not (column.not_null and found.columns[column.name].null_count), column.name
        for unique in item.unique_sets:
            whole = [row for row in rows_of(found.columns, unique.columns) if None not in row]
            assert max(Counter(whole).values(), default=1) == 1, unique
        for key in item.foreign_keys:
            theirs = rows_of(made[str(key.ref_table)].columns, key.ref_columns)
            known, mine = set(theirs), rows_of(found.columns, key.columns)
            assert all(row in known for row in mine if None not in row), key.name
            for place, row in zip(found.parents[key.name], mine, strict=True):
                # The returned parent rows are those that the values name.
                assert theirs[place] == row if place >= 0 else None in row or place < 0


def some_index(rng, rows, parents, *, null):
    index = rng.integers(0, max(parents, 1), rows)
    index[rng.random(rows) < (0.3 if null else 0.0)] = -1
    return np.where(parents == 0, -1, index)


def run(tables, rows, seed, decoded=(), torn=False, **more):
    """All keys of tables of so many rows, for random parents, verified unless they are torn."""
    rng = generator(seed, "index")
    rows = {f"public.{name}": count for name, count in rows.items()}
    parents = {
        item.key: {
            key.name: some_index(
                rng,
                rows[item.key],
                rows[str(key.ref_table)],
                null=any(not item.column(c).not_null for c in key.columns),
            )
            for key in item.foreign_keys
        }
        for item in tables
    }
    made = generate_keys(tables, dict(decoded), parents, rows, seed=seed, **more)
    if not torn:
        verify(tables, made)
    return made


def values(rng, column, rows):
    """Modelled values with many repeats, NULL where it may be."""
    base = column.type.base
    if base == "varchar":
        found = pa.array(rng.choice(["a", "ab", "x@y", "wxyz"], rows))
    elif base == "bool":
        found = pa.array(rng.random(rows) < 0.5)
    elif base == "uuid":
        found = pa.array([str(i) for i in rng.integers(0, 4, rows)])
    elif base == "date":
        found = dates(rng.integers(0, 9, rows))
    else:
        found = pa.array(rng.integers(1, 9, rows).astype({"int4": "i4", "int8": "i8"}[base]))
    if column.not_null:
        return found
    return pc.if_else(pa.array(rng.random(rows) < 0.2), pa.scalar(None, found.type), found)


def modelled_values(item, rows, seed):
    rng = generator(seed, "values", item.key)
    return {c: values(rng, item.column(c), rows) for c in modelled(item)}


@st.composite
def schemas(draw):
    """Up to four tables: single and composite keys, REF anywhere, self-references, UNIQUE sets.

    Composite keys may be mixed of columns that may be NULL and others, and so may their targets.
    """
    made = []
    types = st.sampled_from([INT4, INT8, WORD, DATE, UUID, BOOL])
    for i in range(draw(st.integers(1, 4))):
        columns = [col("id", draw(st.sampled_from([INT4, INT8, WORD, UUID])))]
        columns += [
            col(f"v{j}", draw(types), draw(st.booleans())) for j in range(draw(st.integers(0, 3)))
        ]
        keys = []
        for j in range(draw(st.integers(0, 3))):
            parent = draw(st.integers(0, i))
            type_ = columns[0].type if parent == i else made[parent].column("id").type
            columns.append(col(f"f{j}", type_, parent == i or draw(st.booleans())))
            theirs = columns if parent == i else made[parent].columns
            beside = [c for c in theirs if c.name == "v0"] if draw(st.booleans()) else []
            columns += [col(f"g{j}", c.type, parent == i or draw(st.booleans())) for c in beside]
            mine = (f"f{j}", f"g{j}")[: 1 + len(beside)]
            keys.append((mine, f"t{parent}", ("id", "v0")[: len(mine)]))
        others = [column.name for column in columns[1:]]
        sets = st.lists(st.sampled_from(others), min_size=1, max_size=3, unique=True)
        uniques = draw(st.lists(sets, max_size=2) if others else st.just([]))
        made.append(table(f"t{i}", *columns, primary=("id",), uniques=uniques, keys=keys))
    return made


@settings(max_examples=100, deadline=None)
@given(schemas(), st.lists(st.integers(0, 40), min_size=4, max_size=4), st.integers(0, 2**32))
def test_keys_of_random_schemas_keep_every_constraint(tables, sizes, seed):
    rows = {item.name.name: size for item, size in zip(tables, sizes, strict=False)}
    decoded = {item.key: modelled_values(item, rows[item.name.name], seed) for item in tables}
    run(tables, rows, seed, decoded)


def refers(name, parent, *, null=False, **more):
    """A table with an id and one reference, `f`."""
    keys = [(("f",), parent, ("id",))]
    return table(name, col("id"), col("f", null=null), primary=("id",), keys=keys, **more)


PARENT = table("p", col("id"), primary=("id",))
LINK = table(
    "l", col("a"), col("b"), primary=("a", "b"),
    keys=[(("a",), "p", ("id",)), (("b",), "p", ("id",))],
)  # fmt: skip


def test_rows_beyond_what_few_parents_allow_are_dropped_and_counted():
    made = run([PARENT, LINK], {"p": 3, "l": 30}, 2)
    assert made["public.l"].rows == 30 - made["public.l"].dropped <= 9
    # One to one takes parents without replacement.
    detail = table("d", col("id"), primary=("id",), keys=[(("id",), "p", ("id",))])
    made = run([PARENT, detail], {"p": 20, "d": 20}, 3)
    assert sorted(made["public.d"].parents["d_f0"]) == list(range(20))
    # Children of dropped parents find another.
    parent = table("p", col("code", char(1)), primary=("code",))
    keys = [(("p",), "p", ("code",))]
    child = table("c", col("id"), col("p", null=True), primary=("id",), keys=keys)
    made = run([parent, child], {"p": 100, "c": 500}, 5)
    assert (made["public.p"].rows, made["public.c"].dropped) == (36, 0)


@pytest.mark.parametrize("null", [True, False])
def test_a_cycle_breaks_at_the_cheapest_key(null):
    one, two = refers("a", "b", null=null), refers("b", "a")
    if null:
        steps = [(item.key, deferred) for item, deferred in table_order([two, one])]
        assert steps == [("public.a", ("a_f0",)), ("public.b", ())]
    made = run([one, two], {"a": 30, "b": 20}, 6)["public.a"]
    assert made.rows == 30
    assert made.columns["f"].null_count < 30
    if not null:
        empty = run([one, two], {"a": 30, "b": 0}, 6)
        assert [item.rows for item in empty.values()] == [0, 0]


def test_a_cycle_that_cannot_serve_all_rows_serves_whom_it_can_and_says_so():
    sides = (("a", "b"), ("b", "a"))
    whole = [
        table(name, col("id"), primary=("id",), keys=[(("id",), other, ("id",))])
        for name, other in sides
    ]
    made = run(whole, {"a": 30, "b": 30}, 6)
    assert [(item.rows, item.torn) for item in made.values()] == [(30, False)] * 2
    few = [refers(name, other, uniques=[("f",)]) for name, other in sides]
    made = run(few, {"a": 30, "b": 20}, 6, torn=True)
    assert (made["public.a"].rows, made["public.a"].torn) == (20, True)
    assert not made["public.b"].torn


def test_keys_to_nowhere_are_refused_and_to_public_rows_take_theirs():
    with pytest.raises(SchemaError, match="no rows to refer to"):
        generate_keys([refers("c", "p")], {}, {}, {"public.c": 3}, seed=1)
    made = generate_keys(
        [refers("c", "p")], {}, {"public.c": {"c_f0": np.array([1, 0, 1])}}, {"public.c": 3},
        seed=1, public_keys=lambda key: [pa.array(["de", "at"])],
    )  # fmt: skip
    assert made["public.c"].columns["f"].to_pylist() == ["at", "de", "at"]


@pytest.mark.parametrize(
    ("type_", "default", "rows", "counts_all"),
    [
        (INT4, None, 50, False),
        (INT4, "nextval('l_n_seq'::regclass)", 50, True),
        # A smallint cannot number 40,000 lines: none is dropped for that.
        (INT2, "nextval('l_n_seq'::regclass)", 40_000, False),
    ],
)
def test_numbers_count_all_rows_or_those_of_their_parent(type_, default, rows, counts_all):
    number = col("n", type_, default=default)
    line = table("l", col("p"), number, primary=("p", "n"), keys=[(("p",), "p", ("id",))])
    made = run([PARENT, line], {"p": 50, "l": rows}, 8)["public.l"].columns
    numbers = {}
    for owner, found in rows_of(made, ("p", "n")):
        numbers.setdefault(None if counts_all else owner, []).append(found)
    assert sum(map(len, numbers.values())) == rows
    assert all(sorted(found) == list(range(1, len(found) + 1)) for found in numbers.values())


def unique_index(keys):
    text = f"CREATE UNIQUE INDEX i ON public.t USING btree ({keys})"
    where = "(e <> '')" if " WHERE (" in keys else None
    return Index("i", text, unique=True, has_expressions=True, predicate=where)


_LINES = " WHERE" * 40 + "\n"


@pytest.mark.parametrize(("keys", "names"), [
    (f"lower(e)) WHERE (e <> '{_LINES}'", []),
    ("lower(e)) INCLUDE (id) NULLS NOT DISTINCT WITH (fillfactor='70'", [("e",)]),
    ("lower(e)" + ", tenant" * 50_000, []),
    ("lower(e)" + ', ","' * 50_000, []),
    ("lower(" * 5000 + "e" + ")" * 5000, []),
    ('lower(e), "a, ""b"""', [("e", 'a, "b"')]),
    ("lower((e)::character varying)", [("e",)]),
    ("lower(e) DESC", []),
    ("lower(e) text_pattern_ops", []),
    ('lower(e COLLATE "C")', []),
    ('lower(e) COLLATE "C"', []),
    ("lower((e || 'a'))", []),
    ("upper(e)", []),
    ("e", []),
    ("lower(e), upper(e)", []),
])  # fmt: skip
def test_no_index_takes_more_than_its_length_and_its_keys_are_as_the_parser_says(keys, names):
    item = table("t", col("id"), col("tenant"), col('a, "b"'), col("e", WORD), primary=("id",))
    item = replace(item, indexes=(unique_index(keys),))

    def read():
        assert [found.columns for found in folded_uniques(with_rules(item))] == names

    bounded(read)


@pytest.mark.parametrize(
    ("keys", "tenants"),
    [("lower((e)::text)", [1, 1, 1, 1]), ('"tenant", lower((e)::text)', [1, 1, 1, 2])],
)
def test_texts_that_an_index_folds_are_told_apart(keys, tenants):
    columns = (col("id"), col("tenant"), col("e", WORD))
    item = table("t", *columns, primary=("id",), indexes=(unique_index(keys),))
    assert {found.columns[-1] for found in folded_uniques(item)} == {"e"}
    assert unkept_indexes(item) == ()
    decoded = {"e": pa.array(["Ab", "aB", "ab", "AB"]), "tenant": ints(tenants)}
    pairs = rows_of(fill(item, 4, decoded).columns, ("tenant", "e"))
    assert len({(tenant, text.lower()) for tenant, text in pairs}) == 4


def test_unkept_indexes_names_what_is_not_kept():
    item = table("t", col("seen", DATE), indexes=(unique_index("((seen)::date)"),))
    assert table_coverage(item, {}, 0.0)[-1].why == "UNIQUE index i"


def unique(type_=INT4, *checks):
    """A table with an id and one more column, `v`, whose values are UNIQUE."""
    return table("t", col("id"), col("v", type_), primary=("id",), uniques=[("v",)], checks=checks)


def test_unique_values_move_within_what_is_public():
    item = unique(INT4, "((v >= 1) AND (v <= 10))")
    made = fill(item, 5, {"v": ints([9, 9, 9, 9, 1])})
    assert sorted(made.columns["v"].to_pylist()) == [1, 7, 8, 9, 10]
    # A declared list stays in force.
    for item, listed in ((unique(), [5, 10, 15]), (unique(WORD), ["a", "b", "c"])):
        codec = reader(item.column("v"), item, ColumnConfig(values=listed), 0.0).finish({})
        made = fill(item, 4, {"v": pa.array(listed[:1] * 4)}, codecs={"v": codec})
        assert sorted(made.columns["v"].to_pylist()) == listed
        assert made.dropped == 1
    # Unique text keeps its length and at sign.
    made = fill(unique(WORD), 800, {"v": pa.array(["a@b"] * 400 + ["abcd"] * 400)})
    found = made.columns["v"].to_pylist()
    assert len(set(found)) == 800
    assert max(map(len, found)) <= 4
    assert sum("@" in value for value in found) >= 10
    # Precision limits what is distinct.
    type_ = ColumnType("timestamp(0) without time zone", "timestamp", precision=0)
    same = pa.array([1_600_000_000_000_000] * 50, pa.timestamp("us"))
    made = fill(unique(type_), 50, {"v": same}).columns["v"]
    assert len({value.replace(microsecond=0) for value in made.to_pylist()}) == 50


@pytest.mark.parametrize(
    "checks",
    [["((b IS NULL) OR (a < b))"], ["(a < b)", "(a <= b)"], ["(a <= b)", "(a < b)"],
     ["(b >= a)", "((b > a) OR (b IS NULL))"]],
)  # fmt: skip
def test_checks_that_order_two_columns_hold_and_the_stricter_counts(checks):
    item = table("t", col("a"), col("b", null=True), checks=checks)
    rng = generator(1, "pair")
    numbers = rng.integers(1, 50, (2, 400))
    numbers[1, :150] = numbers[0, :150]
    known = rng.random(400) < 0.8
    decoded = {"a": ints(numbers[0]), "b": pc.if_else(pa.array(known), ints(numbers[1]), None)}
    made = fill(item, 400, decoded, seed=2).columns
    pairs = rows_of(made, "ab")
    assert len(pairs) == 400
    assert all(b is None or a < b for a, b in pairs)
    assert made["b"].null_count == (~known).sum()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_a_check_of_two_references_is_kept(pairs, seed):
    keys = [(["a"], "p", ["id"]), (["b"], "p", ["id"])]
    child = table("c", col("a"), col("b"), keys=keys, checks=["(a < b)"])
    one, other = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    rows = {"public.p": 5, "public.c": len(pairs)}
    drawn = {"public.c": {"c_f0": one, "c_f1": other}}
    made = generate_keys([PARENT, child], {}, drawn, rows, seed=seed)
    verify([PARENT, child], made)
    assert made["public.c"].rows == len(pairs)
    assert all(a < b for a, b in rows_of(made["public.c"].columns, "ab"))


def test_made_keys_are_distinct_in_every_type():
    types = [
        ColumnType("integer[]", "_int4", category="A", parts=(INT4,)),
        ColumnType("int4range", "int4range", kind="r", category="R", parts=(INT4,)),
        ColumnType("pair", "pair", kind="c", category="C", parts=(INT4, BOOL)),
        *(ColumnType(base, base) for base in ("inet", "macaddr", "point", "jsonb", "bytea", "oid")),
    ]
    for type_ in types:
        made = maker_of(type_)
        assert len(set(made.make(np.arange(200)).to_pylist())) == 200, type_.sql
    # An unread domain within a type is null.
    even = ColumnType("even", "int4", category="N", domain_checks=("((VALUE % 2) = 0)",))
    even = type_with_rules(even)
    listed = ColumnType("even[]", "_even", category="A", parts=(even,))
    whole = ColumnType("pair", "pair", kind="c", category="C", parts=(even, even))
    assert maker_of(listed).make(np.arange(2)).to_pylist() == ["{NULL}", "{NULL}"]
    assert maker_of(whole).make(np.arange(2)).to_pylist() == ["(,)", "(,)"]
    # Text keys with room for a uuid hold one.
    item = table("t", col("id", varchar(36)), primary=("id",))
    found = fill(item, 9).columns["id"].to_pylist()
    assert len({*found}) == 9
    assert all(len(text) == 36 and text[14] == "4" for text in found)


def test_a_dense_junction_keeps_nearly_every_pair_and_the_owners():
    """Of 100 × 25 pairs four in five are wanted, most of them with the same few of the 25."""
    keys = [(["a"], "left", ["id"]), (["b"], "right", ["id"])]
    pair = table("pair", col("a"), col("b"), primary=["a", "b"], keys=keys)
    rng, sizes = generator(1), {"pair_f0": 100, "pair_f1": 25}
    popular = np.minimum(rng.geometric(0.1, 2000) - 1, 24)
    parents = {"pair_f0": np.repeat(np.arange(100), 20), "pair_f1": popular}
    work = TableRows(pair, {}, parents, rng, 2000, own="pair_f0")
    made = fill_keys(work, lambda key: [ints(np.arange(sizes[key.name]))])
    assert 1997 <= made.rows <= 2000
    assert (np.bincount(made.columns["a"].to_numpy(), minlength=100) >= 17).all()


@pytest.mark.parametrize("rule", ["pairs", "unlike"])
def test_no_parent_without_a_key_is_drawn(rule):
    """Two in three parents have no code; what had to be drawn again was NULL."""
    keys = [(["a"], "p", ["code"]), (["b"], "p", ["code"])]
    more = {"uniques": [["a", "b"]]} if rule == "pairs" else {"checks": ["(a <> b)"]}
    item = table("c", col("id"), col("a"), col("b"), primary=["id"], keys=keys, **more)
    drawn = {f"c_f{i}": generator(i).integers(60, size=200) for i in range(2)}
    made = fill(item, 200, (), drawn, [ints([i if i % 3 == 0 else None for i in range(60)])])
    assert made.rows > 150
    pairs = rows_of(made.columns, "ab")
    assert None not in {code for pair in pairs for code in pair}
    assert len(pairs) == len({*pairs}) if rule == "pairs" else all(a != b for a, b in pairs)


@pytest.mark.parametrize(
    ("names", "differ"),
    [
        (("home_team_id", "away_team_id"), True),
        (("heim", "gast_team"), False),
        (("from_account", "to_account"), True),
        (("sender_id", "receiver_id"), True),
        (("winner", "loser"), True),
        (("winner", "captain"), False),
    ],
)
def test_no_team_plays_itself(names, differ):
    """References in opposite roles differ; a few teams play much, and none plays more or less."""
    keys = [([name], "team", ["id"]) for name in names]
    match = table("match", col("id"), *map(col, names), primary=["id"], keys=keys)
    rng = generator(2)
    drawn = {f"match_f{i}": np.minimum(rng.geometric(0.2, 900) - 1, 19) for i in range(2)}
    before = [np.bincount(index, minlength=20) for index in drawn.values()]
    made = fill(match, 900, (), drawn, [ints(np.arange(20))])
    one, other = (made.columns[name].to_numpy() for name in names)
    assert np.any(one == other) != differ
    after = [np.bincount(made.columns[name].to_numpy(), minlength=20) for name in names]
    assert np.array_equal(before, after)


@pytest.mark.parametrize("full", [True, False])
def test_keys_of_columns_of_which_some_may_be_null_fill_the_others(full):
    """Of a reference of mixed columns; where all must match, none of them ends."""
    keys = [(("x", "y"), "p", ("a", "b"))]
    item = table("c", col("x", null=True), col("y"), keys=keys)
    if full:
        item = replace(item, foreign_keys=(replace(item.foreign_keys[0], match="f"),))
        made = fill(item, 40, (), {"c_f0": np.full(40, -1)}, [ints([1, 2]), ints([8, 9])])
        assert set(rows_of(made.columns, "xy")) == {(1, 8), (2, 9)}
        return
    parents = [ints([1, 2, 3, 4]), ints([None, 5, 6, None])]
    made = fill(item, 6, (), {"c_f0": np.array([-1, 1, -1, 2, -1, -1])}, parents)
    assert made.columns["x"].to_pylist() == [None, 2, None, 3, None, None]
    assert set(made.columns["y"].to_pylist()) == {5, 6}


# Tables that refer to themselves.


def tree(*more, null=True, **rules):
    """A table with an id, a reference `up` to it, and more columns."""
    keys = [(("up",), "t", ("id",))]
    return table("t", col("id"), col("up", null=null), *more, primary=("id",), keys=keys, **rules)


def roots_above(parents):
    """The last row above every row, and whether going up ends there."""
    above = np.where(parents < 0, np.arange(len(parents)), parents)
    for _ in range(12):
        above = above[above]
    return above, bool((above[above] == above).all())


@pytest.mark.parametrize("null", [True, False])
def test_self_references_make_a_forest(null):
    """All rows refer to some row, as where noise hides that a few refer to none."""
    for seed in range(5):
        drawn = {"t_f0": generator(seed).integers(0, 400, 400)}
        made = fill(tree(null=null), 400, (), drawn, seed=seed)
        assert made.rows == 400
        parents = made.parents["t_f0"]
        roots, ends = roots_above(parents)
        assert ends
        assert made.columns["up"].null_count == (len(set(roots)) if null else 0)
        assert 1 <= len(set(roots)) < 20
        # What leads to rows that nothing refers to stays, and the others make flat trees.
        assert (parents == drawn["t_f0"]).sum() > 100
        above = parents
        for _ in range(9):
            above = np.where(above < 0, above, parents[above])
        assert (above == np.where(roots == above, above, -1)).all()
        ids = made.columns["id"].to_pylist()
        up = [None if place < 0 else ids[place] for place in parents]
        assert made.columns["up"].to_pylist() == up


@pytest.mark.parametrize("own", [1, 2, 9])
def test_unique_references_part_rows_from_themselves(own):
    index = np.roll(np.arange(40), 1)
    index[:own] = np.arange(own)
    index[own:] = np.append(np.arange(own + 1, 40), own)
    made = fill(tree(uniques=[["up"]], checks=["(up <> id)"]), 40, (), {"t_f0": index})
    assert made.rows == 40
    numbers, up = (made.columns[name].to_pylist() for name in ("id", "up"))
    assert all(one != other for one, other in zip(numbers, up, strict=True))
    # Two circles, each of which ends somewhere.
    assert up.count(None) == (1 if own == 1 else 2)
    assert len(set(up)) == 40 - up.count(None) + 1
    parents = made.parents["t_f0"]
    assert [numbers[place] if place >= 0 else None for place in parents] == up


def test_rows_that_may_not_refer_to_themselves_refer_to_others():
    made = fill(tree(checks=["(up <> id)"]), 50, (), {"t_f0": np.arange(50)}).columns
    pairs = rows_of(made, ("id", "up"))
    assert len(pairs) == 50
    assert 1 <= made["up"].null_count < 10
    assert all(up is None or (up in range(1, 51) and up != id_) for id_, up in pairs)
    # What they refer to is filled in.
    keys = [(["boss"], "t", ["code"])]
    item = table("t", col("code", null=True), col("boss"), keys=keys, checks=["(boss <> code)"])
    codes = ints([i if i % 3 == 0 else None for i in range(90)])
    made = fill(item, 90, {"code": codes}, {"t_f0": np.arange(90)})
    assert (made.rows, made.columns["boss"].null_count) == (90, 0)


SIXTY = "((v >= 1) AND (v <= 60))"


@pytest.mark.parametrize("null", [True, False])
def test_dropped_rows_hand_on_what_they_referred_to(null):
    item = tree(col("v"), null=null, uniques=[("v",)], checks=[SIXTY])
    up = np.maximum(np.arange(100) - 1, 0)
    up[0] = -1 if null else 0
    made = fill(item, 100, {"v": ints(np.arange(100) % 60 + 1)}, {"t_f0": up})
    assert made.rows == 60
    parents = made.parents["t_f0"]
    assert ((parents < 0) | (parents == np.arange(60))).sum() == 1
    assert made.columns["up"].null_count == (1 if null else 0)


@pytest.mark.parametrize("roots_per_tree", [False, True])
def test_trees_have_levels_nested_sets_and_paths_of_their_references(roots_per_tree):
    named = [col(name, null=True) for name in ("level", "lft", "rght", "child_count")]
    named += [col("tree_id")] if roots_per_tree else []
    item = tree(*named, col("path", TEXT, True), col("slug", TEXT))
    for seed in range(5):
        rng = generator(seed)
        level = np.sort(rng.choice([1, 2, 3, 4], 300, p=[0.1, 0.3, 0.4, 0.2]))[::-1]
        decoded = {
            "level": ints(level),
            "path": pa.array(["/ab/c/"] * 300),
            "slug": pa.array([f"s {place}" for place in range(300)]),
        }
        index = np.where(rng.permutation(level) == 1, -1, rng.integers(0, 300, 300))
        made = fill(item, 300, decoded, {"t_f0": index}, seed=seed)
        parents = made.parents["t_f0"]
        rows = {name: values.to_pylist() for name, values in made.columns.items()}
        # As many rows at each level as the model drew, each below a row of the level above.
        assert rows["level"] == level.tolist()
        below = parents >= 0
        assert (below == (level > 1)).all()
        assert (level[parents[below]] == level[below] - 1).all()
        assert rows["child_count"] == np.bincount(parents[below], minlength=300).tolist()
        for place, up in enumerate(parents):
            if up >= 0:
                assert rows["lft"][up] < rows["lft"][place] < rows["rght"][place] < rows["rght"][up]
                assert rows["path"][place] == f"{rows['path'][up]}s {place}/"
                assert not roots_per_tree or rows["tree_id"][place] == rows["tree_id"][up]
            else:
                assert rows["path"][place] == f"/s {place}/"
        trees = rows["tree_id"] if roots_per_tree else [1] * 300
        ends = sorted(zip(trees * 2, rows["lft"] + rows["rght"], strict=True))
        counts = Counter(number for number, _ in ends)
        assert ends == [(n, i + 1) for n in sorted(counts) for i in range(counts[n])]


@pytest.mark.parametrize("known", [True, False])
def test_replies_are_on_the_same_post_and_later_and_know_their_root(known):
    rng, rows = generator(2), 3000
    keys = [(("post",), "post", ("id",)), (("parent_id",), "t", ("id",))]
    more = [col(name) for name in ("thread_id", *(["depth"] if known else []))]
    item = table("t", col("id"), col("post"), col("parent_id", null=True), col("made_on", DATE),
                 *more, primary=("id",), keys=keys)  # fmt: skip
    depth = rng.choice(4, rows, p=[0.45, 0.3, 0.2, 0.05])
    decoded = {
        "made_on": dates(rng.integers(0, 9000, rows)),
        "thread_id": ints(np.ones(rows)),
        "depth": ints(depth),
    }
    post = (rng.pareto(1.5, rows) * 20).astype(int) % 400
    up = np.where(rng.permutation(depth) == 0, -1, rng.integers(0, rows, rows))
    decoded = {name: decoded[name] for name in decoded if name in {c.name for c in item.columns}}
    made = fill(item, rows, decoded, {"t_f0": post, "t_f1": up}, [ints(np.arange(400))])
    above, columns = made.parents["t_f1"], made.columns
    roots, ends = roots_above(above)
    below = above >= 0
    assert ends
    assert made.parents["t_f0"].tolist() == post.tolist()
    assert (post[above[below]] == post[below]).mean() > 0.97
    date = np.asarray(columns["made_on"].cast(pa.int32()))
    assert (date[above[below]] <= date[below]).mean() > 0.97
    assert columns["thread_id"].to_pylist() == np.asarray(columns["id"])[roots].tolist()
    assert abs(below.mean() - 0.55) < 0.03
    if known:
        assert np.bincount(columns["depth"]).tolist() == np.bincount(depth).tolist()


@pytest.mark.parametrize("levels", [(10, 20, 30), (-1, 1, 2, 3), (7,), range(9)])
def test_columns_named_like_those_of_trees_stay_if_they_hold_something_else(levels):
    """Levels of logs and skills, paths of files, nested sets that nobody keeps."""
    ends = [col(name, null=True) for name in ("lft", "rgt")]
    item, rng = tree(col("level"), col("path", TEXT), *ends), generator(1)
    decoded = {
        "level": ints(rng.choice([*levels], 400)),
        "path": pa.array(["/srv/forms/f.pdf"] * 400),
        **dict.fromkeys(("lft", "rgt"), pa.nulls(400, pa.int64())),
    }
    index = np.where(rng.random(400) < 0.4, -1, np.arange(400) // 2)
    made = fill(item, 400, decoded, {"t_f0": index})
    assert {name: made.columns[name].to_pylist() for name in decoded} == {
        name: values.to_pylist() for name, values in decoded.items()
    }
    # Slugs name no rows above.
    item = tree(col("path", TEXT), col("name", TEXT))
    decoded = {"path": pa.array(["team-1", "team-2"] * 200), "name": pa.array(["A", "B"] * 200)}
    assert fill(item, 400, decoded, {"t_f0": index}).columns["path"].equals(decoded["path"])
