"""Minted keys: every constraint holds, on random schemas and on a real server."""

from collections import Counter
from dataclasses import replace

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from privbench.config import ColumnConfig
from privbench.encoding.base import Decimals, DecimalsNeed
from privbench.encoding.bounds import Bounds
from privbench.encoding.keys.columns import folded_uniques, role_of, unkept_indexes
from privbench.encoding.keys.generate import fill_keys, generate_keys, table_order
from privbench.encoding.placeholders import maker_of
from privbench.encoding.registry import reader, table_coverage
from privbench.errors import SchemaError
from privbench.postgres.csvtext import csv_blocks
from privbench.postgres.introspect import introspect
from privbench.rng import generator
from privbench.schema import (
    Check,
    Column,
    ColumnType,
    ForeignKey,
    Index,
    Table,
    TableName,
    Unique,
)

INT = ColumnType("integer", "int4", category="N")
BIG = ColumnType("bigint", "int8", category="N")
TEXT = ColumnType("character varying(4)", "varchar", category="S", length=4)
DATE = ColumnType("date", "date", category="D")
UUID = ColumnType("uuid", "uuid")
BOOL = ColumnType("boolean", "bool", category="B")


def modelled(table):
    """Columns that need a reader, in their order."""
    return tuple(c.name for c in table.columns if role_of(table, c) == "modelled")


def name(text):
    return TableName("public", text)


def table(key, *columns, primary=(), uniques=(), keys=(), checks=()):
    return Table(
        name(key),
        tuple(replace(column, position=i + 1) for i, column in enumerate(columns)),
        primary_key=Unique(f"{key}_pk", tuple(primary), primary=True) if primary else None,
        uniques=tuple(Unique(f"{key}_u{i}", tuple(item)) for i, item in enumerate(uniques)),
        foreign_keys=tuple(
            ForeignKey(f"{key}_f{i}", name(key), tuple(mine), name(parent), tuple(theirs))
            for i, (mine, parent, theirs) in enumerate(keys)
        ),
        checks=tuple(Check(f"k{i}", text) for i, text in enumerate(checks)),
    )


def col(text, type_=INT, null=False):
    return Column(text, 1, type_, not_null=not null)


def verify(tables, made):
    """Every PRIMARY KEY, UNIQUE, NOT NULL and FOREIGN KEY, by brute force."""
    for item in tables:
        found = made[item.key]
        rows = {key: values.to_pylist() for key, values in found.columns.items()}
        assert all(len(values) == found.rows for values in rows.values())
        for column in item.columns:
            assert not (column.not_null and None in rows[column.name]), column.name
        for unique in item.unique_sets:
            combos = list(zip(*(rows[c] for c in unique.columns), strict=True))
            whole = [combo for combo in combos if None not in combo]
            assert not [combo for combo, times in Counter(whole).items() if times > 1], unique
        for key in item.foreign_keys:
            parent = made[str(key.ref_table)].columns
            known = set(zip(*(parent[c].to_pylist() for c in key.ref_columns), strict=True))
            mine = list(zip(*(rows[c] for c in key.columns), strict=True))
            assert all(combo in known for combo in mine if None not in combo), key.name
            check_parents(key, found.parents[key.name], mine, parent)


def check_parents(key, index, mine, parent):
    """The returned parent rows are those that the values name."""
    theirs = list(zip(*(parent[c].to_pylist() for c in key.ref_columns), strict=True))
    for place, combo in zip(index, mine, strict=True):
        assert (place < 0) == (None in combo) or place < 0
        assert place < 0 or theirs[place] == combo


def some_index(rng, rows, parents, *, null):
    index = rng.integers(0, max(parents, 1), rows)
    index[rng.random(rows) < (0.3 if null else 0.0)] = -1
    return np.where(parents == 0, -1, index)


def run(tables, rows, decoded, seed, **more):
    rng = generator(seed, "index")
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
    return generate_keys(tables, decoded, parents, rows, seed=seed, **more)


def values(rng, column, rows):
    """Modelled values with many repeats, NULL where it may be."""
    if column.type.base == "varchar":
        found = pa.array(rng.choice(["a", "ab", "x@y", "wxyz"], rows))
    elif column.type.base == "bool":
        found = pa.array(rng.random(rows) < 0.5)
    elif column.type.base == "uuid":
        found = pa.array([str(i) for i in rng.integers(0, 4, rows)])
    elif column.type.base == "date":
        found = pa.array(rng.integers(0, 9, rows).astype(np.int32)).cast(pa.date32())
    else:
        found = pa.array(
            rng.integers(1, 9, rows).astype({"int4": "i4", "int8": "i8"}[column.type.base])
        )
    if column.not_null:
        return found
    return pa.compute.if_else(pa.array(rng.random(rows) < 0.2), pa.scalar(None, found.type), found)


def modelled_values(item, rows, seed):
    rng = generator(seed, "values", item.key)
    return {c: values(rng, item.column(c), rows) for c in modelled(item)}


counts = st.integers(0, 40)
types = st.sampled_from([INT, BIG, TEXT, DATE, UUID, BOOL])


@st.composite
def schemas(draw):
    """Up to four tables: single and composite keys, REF anywhere, self-references, UNIQUE sets.

    Composite keys may be mixed of columns that may be NULL and others, and so may their targets.
    """
    made = []
    for i in range(draw(st.integers(1, 4))):
        columns = [col("id", draw(st.sampled_from([INT, BIG, TEXT, UUID])))]
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
        uniques = draw(
            st.lists(
                st.lists(st.sampled_from(others), min_size=1, max_size=3, unique=True), max_size=2
            )
            if others
            else st.just([])
        )
        made.append(table(f"t{i}", *columns, primary=("id",), uniques=uniques, keys=keys))
    return made


@settings(max_examples=150, deadline=None)
@given(schemas(), st.lists(counts, min_size=4, max_size=4), st.integers(0, 2**32))
def test_random_schemas(tables, sizes, seed):
    rows = {item.key: size for item, size in zip(tables, sizes, strict=False)}
    decoded = {item.key: modelled_values(item, rows[item.key], seed) for item in tables}
    verify(tables, run(tables, rows, decoded, seed))


def test_rows_that_are_dropped_hand_on_no_reference_that_must_be_unique():
    parent = table("t0", col("id"), primary=("id",))
    child = table(
        "t1", col("id"), col("f0"), col("f1", null=True), primary=("id",),
        uniques=[("f0",), ("f1",)], keys=[(("f0",), "t0", ("id",)), (("f1",), "t1", ("id",))],
    )  # fmt: skip
    rows = {"public.t0": 7, "public.t1": 20}
    for seed in range(60):
        verify([parent, child], run([parent, child], rows, {key: {} for key in rows}, seed))


def test_tenants_agree_on_the_shared_column():
    tenant = table("tenant", col("id"), primary=("id",))
    user = table(
        "usr", col("tenant"), col("id"), primary=("tenant", "id"),
        keys=[(("tenant",), "tenant", ("id",))],
    )  # fmt: skip
    task = table(
        "task", col("tenant"), col("id"), col("author"), col("helper", null=True),
        primary=("tenant", "id"),
        keys=[
            (("tenant",), "tenant", ("id",)),
            (("tenant", "author"), "usr", ("tenant", "id")),
            (("tenant", "helper"), "usr", ("tenant", "id")),
        ],
    )  # fmt: skip
    tables = [tenant, user, task]
    rows = {"public.tenant": 7, "public.usr": 40, "public.task": 300}
    made = run(tables, rows, {}, 4, own={"public.task": "task_f1"})
    verify(tables, made)
    assert made["public.task"].dropped == 0
    helpers = made["public.task"].columns["helper"]
    assert 0 < helpers.null_count < 300
    assert role_of(task, task.column("id")) == "minted"


def test_the_owner_of_a_row_is_kept_where_it_can_be():
    parent = table("p", col("id"), primary=("id",))
    link = table(
        "l", col("a"), col("b"), primary=("a", "b"),
        keys=[(("a",), "p", ("id",)), (("b",), "p", ("id",))],
    )  # fmt: skip
    rng = generator(1)
    owner, other = rng.integers(0, 50, 200), np.zeros(200, dtype=np.int64)
    keys = pa.array(np.arange(1, 51, dtype=np.int32))
    made = fill_keys(
        link, {}, {"l_f0": owner, "l_f1": other}, lambda key: [keys], rng, rows=200, own="l_f0"
    )
    assert made.dropped == 0
    np.testing.assert_array_equal(made.parents["l_f0"], owner)
    verify([parent, link], {"public.p": fill_keys(parent, {}, {}, lambda key: [], rng, rows=50),
                            "public.l": made})  # fmt: skip


def test_a_full_junction_drops_the_rest_and_says_so():
    parent = table("p", col("id"), primary=("id",))
    link = table(
        "l", col("a"), col("b"), primary=("a", "b"),
        keys=[(("a",), "p", ("id",)), (("b",), "p", ("id",))],
    )  # fmt: skip
    made = run([parent, link], {"public.p": 3, "public.l": 30}, {}, 2)
    verify([parent, link], made)
    assert made["public.l"].rows <= 9
    assert made["public.l"].dropped == 30 - made["public.l"].rows


def test_one_to_one_takes_parents_without_replacement():
    parent = table("p", col("id"), primary=("id",))
    detail = table("d", col("id"), primary=("id",), keys=[(("id",), "p", ("id",))])
    made = run([parent, detail], {"public.p": 20, "public.d": 20}, {}, 3)
    verify([parent, detail], made)
    assert made["public.d"].dropped == 0
    assert sorted(made["public.d"].parents["d_f0"]) == list(range(20))


def test_orphans_of_dropped_parents_find_another():
    parent = table("p", col("code", ColumnType("character(1)", "bpchar", category="S", length=1)),
                   primary=("code",))  # fmt: skip
    child = table(
        "c", col("id"), col("p", null=True), primary=("id",), keys=[(("p",), "p", ("code",))]
    )
    made = run([parent, child], {"public.p": 100, "public.c": 500}, {}, 5)
    assert made["public.p"].rows == 36
    verify([parent, child], made)
    assert made["public.c"].dropped == 0


def test_cycles_break_at_the_cheapest_key():
    one = table("a", col("id"), col("b", null=True), primary=("id",), keys=[(("b",), "b", ("id",))])
    two = table("b", col("id"), col("a"), primary=("id",), keys=[(("a",), "a", ("id",))])
    steps = table_order([two, one])
    assert [(step.table.key, step.deferred) for step in steps] == [
        ("public.a", ("a_f0",)), ("public.b", ()),
    ]  # fmt: skip
    made = run([one, two], {"public.a": 30, "public.b": 20}, {}, 6)
    verify([one, two], made)
    assert made["public.a"].columns["b"].null_count < 30


def test_a_cycle_of_required_keys_is_filled_too():
    one = table("a", col("id"), col("b"), primary=("id",), keys=[(("b",), "b", ("id",))])
    two = table("b", col("id"), col("a"), primary=("id",), keys=[(("a",), "a", ("id",))])
    made = run([one, two], {"public.a": 30, "public.b": 20}, {}, 6)
    verify([one, two], made)
    assert made["public.a"].rows == 30
    empty = run([one, two], {"public.a": 30, "public.b": 0}, {}, 6)
    assert [item.rows for item in empty.values()] == [0, 0]


def test_two_primary_keys_that_refer_to_each_other():
    one = table("a", col("id"), primary=("id",), keys=[(("id",), "b", ("id",))])
    two = table("b", col("id"), primary=("id",), keys=[(("id",), "a", ("id",))])
    made = run([one, two], {"public.a": 30, "public.b": 30}, {}, 6)
    verify([one, two], made)
    assert [(item.rows, item.torn) for item in made.values()] == [(30, False)] * 2


def test_rows_that_a_cycle_cannot_serve_go_and_it_is_said():
    one = table("a", col("id"), col("b"), primary=("id",), uniques=[("b",)],
                keys=[(("b",), "b", ("id",))])  # fmt: skip
    two = table("b", col("id"), col("a"), primary=("id",), uniques=[("a",)],
                keys=[(("a",), "a", ("id",))])  # fmt: skip
    made = run([one, two], {"public.a": 30, "public.b": 20}, {}, 6)
    assert (made["public.a"].rows, made["public.a"].torn) == (20, True)
    assert not made["public.b"].torn


def test_a_tree_within_each_tenant():
    tree = table(
        "t", col("tenant"), col("id"), col("parent", null=True), primary=("tenant", "id"),
        keys=[(("tenant", "parent"), "t", ("tenant", "id"))],
    )  # fmt: skip
    assert modelled(tree) == ("tenant",)
    tenants = pa.array(np.arange(60, dtype=np.int32) % 7)
    made = run([tree], {"public.t": 60}, {"public.t": {"tenant": tenants}}, 4)
    verify([tree], made)
    assert made["public.t"].columns["tenant"].equals(tenants)
    assert 0 < made["public.t"].columns["parent"].null_count < 60


def test_a_key_to_nowhere_is_refused():
    child = table("c", col("id"), col("p"), primary=("id",), keys=[(("p",), "p", ("id",))])
    with pytest.raises(SchemaError, match="no rows to refer to"):
        generate_keys([child], {}, {}, {"public.c": 3}, seed=1)


def test_public_parents_give_their_own_keys():
    child = table("c", col("id"), col("p", TEXT), primary=("id",), keys=[(("p",), "p", ("id",))])
    made = generate_keys(
        [child], {}, {"public.c": {"c_f0": np.array([1, 0, 1])}}, {"public.c": 3},
        seed=1, public_keys=lambda key: [pa.array(["de", "at"])],
    )  # fmt: skip
    assert made["public.c"].columns["p"].to_pylist() == ["at", "de", "at"]


@pytest.mark.parametrize(
    ("type_", "default", "rows", "counts_all"),
    [
        (INT, None, 50, False),
        (INT, "nextval('l_n_seq'::regclass)", 50, True),
        # A smallint cannot number 40,000 lines: none is dropped for that.
        (ColumnType("smallint", "int2"), "nextval('l_n_seq'::regclass)", 40_000, False),
    ],
)
def test_numbers_count_all_rows_or_those_of_their_parent(type_, default, rows, counts_all):
    parent = table("p", col("id"), primary=("id",))
    number = replace(col("n", type_), default=default)
    line = table("l", col("p"), number, primary=("p", "n"), keys=[(("p",), "p", ("id",))])
    made = run([parent, line], {"public.p": 50, "public.l": rows}, {}, 8)["public.l"].columns
    numbers = {}
    for owner, found in zip(made["p"].to_pylist(), made["n"].to_pylist(), strict=True):
        numbers.setdefault(None if counts_all else owner, []).append(found)
    assert sum(map(len, numbers.values())) == rows
    assert all(sorted(found) == list(range(1, len(found) + 1)) for found in numbers.values())


@pytest.mark.parametrize(
    ("keys", "tenants", "distinct"),
    [("lower((e)::text)", [1, 1, 1, 1], 4), ('"tenant", lower((e)::text)', [1, 1, 1, 2], 4)],
)
def test_case_does_not_make_texts_unique(keys, tenants, distinct):
    text = f"CREATE UNIQUE INDEX i ON public.t USING btree ({keys})"
    index = Index("i", text, unique=True, has_expressions=True)
    columns = (col("id"), col("tenant"), col("e", TEXT))
    item = replace(table("t", *columns, primary=("id",)), indexes=(index,))
    assert unkept_indexes(item) == ()
    values = {"e": pa.array(["Ab", "aB", "ab", "AB"]), "tenant": pa.array(tenants, pa.int32())}
    made = fill_keys(item, values, {}, lambda key: [], generator(1), rows=4)
    pairs = zip(*(made.columns[name].to_pylist() for name in ("tenant", "e")), strict=True)
    assert len({(tenant, text.lower()) for tenant, text in pairs}) == distinct


def test_unique_text_keeps_its_length_and_at_sign():
    item = table("t", col("id"), col("e", TEXT), primary=("id",), uniques=[("e",)])
    text = pa.array(["a@b"] * 400 + ["abcd"] * 400)
    made = fill_keys(item, {"e": text}, {}, lambda key: [], generator(1), rows=800)
    found = made.columns["e"].to_pylist()
    assert made.dropped == 0
    assert len(set(found)) == 800
    assert max(map(len, found)) <= 4
    assert sum("@" in value for value in found) >= 10


def test_unique_values_move_to_their_neighbours_within_the_check():
    item = table("t", col("id"), col("n"), primary=("id",), uniques=[("n",)],
                 checks=["((n >= 1) AND (n <= 10))"])  # fmt: skip
    numbers = pa.array(np.array([9, 9, 9, 9, 1], dtype=np.int32))
    made = fill_keys(item, {"n": numbers}, {}, lambda key: [], generator(1), rows=5)
    assert sorted(made.columns["n"].to_pylist()) == [1, 7, 8, 9, 10]


def test_a_declared_list_stays_in_force():
    item = table("t", col("id"), col("n"), primary=("id",), uniques=[("n",)])
    codec = reader(item.column("n"), item, ColumnConfig(values=[5, 10, 15]), 0.0).finish({})
    made = fill_keys(item, {"n": pa.array(np.array([5] * 4, np.int32))}, {}, lambda key: [],
                generator(1), rows=4, codecs={"n": codec})  # fmt: skip
    assert sorted(made.columns["n"].to_pylist()) == [5, 10, 15]
    assert made.dropped == 1


def test_ordered_checks_hold():
    item = table("t", col("id"), col("a", DATE), col("b", DATE, null=True), primary=("id",),
                 checks=["((b IS NULL) OR (a < b))"])  # fmt: skip
    decoded = modelled_values(item, 500, 1)
    made = fill_keys(item, decoded, {}, lambda key: [], generator(1), rows=500).columns
    pairs = list(zip(made["a"].to_pylist(), made["b"].to_pylist(), strict=True))
    assert all(b is None or a < b for a, b in pairs)
    assert made["b"].null_count == decoded["b"].null_count


def test_precision_limits_what_is_distinct():
    type_ = ColumnType("timestamp(0) without time zone", "timestamp", precision=0)
    item = table("t", col("id"), col("at", type_), primary=("id",), uniques=[("at",)])
    same = pa.array([1_600_000_000_000_000] * 50, pa.timestamp("us"))
    made = fill_keys(item, {"at": same}, {}, lambda key: [], generator(1), rows=50).columns["at"]
    assert len({value.replace(microsecond=0) for value in made.to_pylist()}) == 50


SHOP = """
CREATE TABLE region (code char(2) PRIMARY KEY, parent char(2) REFERENCES region);
CREATE TABLE tenant (id serial PRIMARY KEY, slug varchar(8) NOT NULL UNIQUE,
  opened date NOT NULL, closed date, CHECK (closed >= opened));
CREATE TABLE person (tenant_id int REFERENCES tenant, id int, email text NOT NULL,
  boss int, region char(2) REFERENCES region, ref uuid NOT NULL UNIQUE, score numeric(6,2) UNIQUE,
  PRIMARY KEY (tenant_id, id), UNIQUE (tenant_id, email),
  FOREIGN KEY (tenant_id, boss) REFERENCES person (tenant_id, id));
CREATE TABLE passport (tenant_id int, person_id int, number text NOT NULL UNIQUE,
  PRIMARY KEY (tenant_id, person_id),
  FOREIGN KEY (tenant_id, person_id) REFERENCES person (tenant_id, id));
CREATE TABLE team (tenant_id int NOT NULL REFERENCES tenant, id bigint GENERATED ALWAYS AS IDENTITY
  PRIMARY KEY, lead int, UNIQUE (tenant_id, id),
  FOREIGN KEY (tenant_id, lead) REFERENCES person (tenant_id, id) MATCH SIMPLE);
CREATE TABLE member (tenant_id int NOT NULL, team_id bigint NOT NULL, person_id int NOT NULL,
  since timestamptz(0) NOT NULL DEFAULT now(), PRIMARY KEY (team_id, person_id),
  FOREIGN KEY (tenant_id, team_id) REFERENCES team (tenant_id, id),
  FOREIGN KEY (tenant_id, person_id) REFERENCES person (tenant_id, id));
CREATE TABLE visit (tenant_id int, person_id int, day date, place boolean,
  half int GENERATED ALWAYS AS (person_id / 2) STORED, PRIMARY KEY (tenant_id, person_id, day),
  FOREIGN KEY (tenant_id, person_id) REFERENCES person ON DELETE CASCADE);
CREATE TABLE login ("Name" varchar(12) NOT NULL, mail text, seen timestamp, live boolean);
CREATE UNIQUE INDEX ON login (lower("Name"));
CREATE UNIQUE INDEX ON login (lower(mail));
CREATE UNIQUE INDEX ON login (seen) WHERE live;
CREATE INDEX ON login (upper(mail));
CREATE TABLE a (id int PRIMARY KEY, b int NOT NULL);
CREATE TABLE b (id int PRIMARY KEY, a int NOT NULL REFERENCES a, time_of interval UNIQUE);
ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b;
"""


@pytest.fixture(scope="module")
def shop(make_database):
    dsn = make_database()
    with psycopg.connect(dsn) as connection:
        connection.execute(SHOP)
        return dsn, introspect(connection)


def decode_all(item, rows, seed):
    rng = generator(seed, item.key)
    columns, codecs = {}, {}
    for column in modelled(item):
        plan = reader(item.column(column), item, ColumnConfig(), 0.0)
        bounds = {}
        for need in plan.needs:
            if isinstance(need, DecimalsNeed):
                # Multiples leave less room for UNIQUE values.
                bounds[need.attribute] = Decimals(need.told[seed % len(need.told)])
                continue
            half = len(need.candidates) // 2
            bounds[need.attribute] = Bounds(
                int(need.candidates[half + 3]), int(need.candidates[half + 30])
            )
        codec = plan.finish(bounds)
        codes = {key: rng.integers(d.size, size=rows) for key, d in codec.domains.items()}
        columns[column], codecs[column] = codec.decode(codes, rng, rows), codec
    return columns, codecs


@pytest.mark.parametrize("seed", [1, 2])
def test_a_rich_schema_loads(shop, seed):
    dsn, schema = shop
    rows = dict.fromkeys((item.key for item in schema), 400) | {"public.tenant": 9}
    both = {item.key: decode_all(item, rows[item.key], seed) for item in schema}
    made = run(
        list(schema.tables), rows, {key: pair[0] for key, pair in both.items()}, seed,
        codecs={key: pair[1] for key, pair in both.items()},
    )  # fmt: skip
    assert made["public.person"].rows > 300
    assert made["public.a"].rows == 400
    with psycopg.connect(dsn) as connection:
        connection.execute("SET session_replication_role = replica")
        for item in schema:
            copy_in(connection, item, made[item.key])
        connection.execute("SET session_replication_role = DEFAULT")
        for item in schema:
            for key in item.foreign_keys:
                recheck(connection, item, key)
        connection.rollback()


def copy_in(connection, item, minted):
    names = [c.name for c in item.columns if c.name in minted.columns]
    missing = {c.name for c in item.columns} - set(names)
    assert all(item.column(column).generated for column in missing)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
        sql.Identifier(item.name.schema, item.name.name),
        sql.SQL(", ").join(map(sql.Identifier, names)),
    )
    with connection.cursor().copy(statement) as copy:
        for block in csv_blocks([pa.table({c: minted.columns[c] for c in names})], len(names)):
            copy.write(bytes(block))


def recheck(connection, item, key):
    """Drop and add the constraint: the server checks every row."""
    who = sql.Identifier(item.name.schema, item.name.name)
    row = connection.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conname = %s AND conrelid = %s::regclass",
        [key.name, str(item.name)],
    ).fetchone()
    connection.execute(
        sql.SQL("ALTER TABLE {} ADD CONSTRAINT again {}").format(who, sql.SQL(row[0]))
    )
    connection.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT again").format(who))


def test_indexes_that_are_kept_and_not(shop):
    login = shop[1].table("login")
    assert {item.columns for item in folded_uniques(login)} == {("Name",), ("mail",)}
    assert unkept_indexes(login) == ()
    odd = replace(
        login.indexes[0],
        definition="CREATE UNIQUE INDEX x ON login USING btree (((seen)::date))",
        unique=True,
        has_expressions=True,
    )
    lines = table_coverage(replace(login, indexes=(odd,)), {}, 0.0)
    assert lines[-1].why == f"UNIQUE index {odd.name}"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30), st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_two_references_to_one_parent_keep_their_check(pairs, seed):
    parent = table("p", col("id"), primary=["id"])
    keys = [(["a"], "p", ["id"]), (["b"], "p", ["id"])]
    child = table("c", col("a"), col("b"), keys=keys, checks=["(a < b)"])
    index = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    made = generate_keys(
        [parent, child],
        {},
        {"public.c": {"c_f0": index[:, 0], "c_f1": index[:, 1]}},
        {"public.p": 5, "public.c": len(pairs)},
        seed=seed,
    )
    verify([parent, child], made)
    rows = made["public.c"].columns
    assert made["public.c"].rows == len(pairs)
    assert all(a < b for a, b in zip(rows["a"].to_pylist(), rows["b"].to_pylist(), strict=True))


def test_numbers_of_every_type_are_distinct_where_there_is_room():
    element = ColumnType("integer", "int4", category="N")
    types = [
        ColumnType("integer[]", "_int4", category="A", parts=(element,)),
        ColumnType("int4range", "int4range", kind="r", category="R", parts=(element,)),
        ColumnType("pair", "pair", kind="c", category="C", parts=(element, BOOL)),
        *(ColumnType(base, base) for base in ("inet", "macaddr", "point", "jsonb", "bytea", "oid")),
    ]
    for type_ in types:
        made = maker_of(type_)
        assert len(set(made.make(np.arange(200)).to_pylist())) == 200, type_.sql


def test_an_unread_domain_within_a_type_is_null():
    even = ColumnType("even", "int4", category="N", domain_checks=("((VALUE % 2) = 0)",))
    listed = ColumnType("even[]", "_even", category="A", parts=(even,))
    whole = ColumnType("pair", "pair", kind="c", category="C", parts=(even, even))
    assert maker_of(listed).make(np.arange(2)).to_pylist() == ["{NULL}", "{NULL}"]
    assert maker_of(whole).make(np.arange(2)).to_pylist() == ["(,)", "(,)"]


def test_rows_are_not_their_own_parents_where_a_check_forbids_it():
    keys = [(("boss",), "t", ("id",))]
    item = table("t", col("id"), col("boss", null=True), primary=("id",), keys=keys,
                 checks=("(boss <> id)",))  # fmt: skip
    own = {"t_f0": np.arange(50)}
    made = fill_keys(item, {}, own, lambda key: [], generator(1), rows=50).columns
    pairs = list(zip(made["id"].to_pylist(), made["boss"].to_pylist(), strict=True))
    assert len(pairs) == 50
    roots = [id_ for id_, boss in pairs if boss is None]
    assert 1 <= len(roots) < 10
    assert all(boss in range(1, 51) and boss != id_ for id_, boss in pairs if boss is not None)


def test_text_keys_with_room_for_a_uuid_hold_one():
    wide = ColumnType("character varying(36)", "varchar", category="S", length=36)
    item = table("t", col("id", wide), primary=("id",))
    found = fill_keys(item, {}, {}, lambda key: [], generator(1), rows=9).columns["id"].to_pylist()
    assert len({*found}) == 9
    assert all(len(text) == 36 and text[14] == "4" for text in found)


def test_times_are_keys_that_mean_something():
    stamp = ColumnType("timestamp with time zone", "timestamptz", category="D")
    item = table("t", col("at", stamp), col("id"), primary=("at",))
    assert role_of(item, item.column("at")) == "modelled"
    assert role_of(table("t", col("id"), primary=("id",)), col("id")) == "minted"


@pytest.mark.parametrize("own", [1, 2, 9])
def test_rows_that_may_not_be_their_own_parents_part_and_stay_unique(own):
    columns = (Column("id", 1, INT, not_null=True), Column("next", 2, INT))
    keys = [(["next"], "chain", ["id"])]
    chain = table(
        "chain", *columns, primary=["id"], uniques=[["next"]], keys=keys, checks=["(next <> id)"]
    )
    index = np.roll(np.arange(40), 1)
    index[:own] = np.arange(own)
    index[own:] = np.append(np.arange(own + 1, 40), own)
    made = fill_keys(chain, {}, {"chain_f0": index}, lambda key: [], generator(1), rows=40)
    assert made.rows == 40
    numbers, next_ = (made.columns[name].to_pylist() for name in ("id", "next"))
    assert all(one != other for one, other in zip(numbers, next_, strict=True))
    # Two circles, each of which ends somewhere.
    assert next_.count(None) == (1 if own == 1 else 2)
    assert len(set(next_)) == 40 - next_.count(None) + 1
    parents = made.parents["chain_f0"]
    assert [numbers[place] if place >= 0 else None for place in parents] == next_


def test_pairs_of_a_dense_junction_are_kept():
    """Of 100 × 25 pairs four in five are wanted, most of them with the same few of the 25."""
    columns = (Column("a", 1, INT, not_null=True), Column("b", 2, INT, not_null=True))
    keys = [(["a"], "left", ["id"]), (["b"], "right", ["id"])]
    pair = table("pair", *columns, primary=["a", "b"], keys=keys)
    rng = generator(1)
    parents = {
        "pair_f0": np.repeat(np.arange(100), 20),
        "pair_f1": np.minimum(rng.geometric(0.1, 2000) - 1, 24),
    }
    sizes = {"pair_f0": 100, "pair_f1": 25}
    ids = lambda key: [pa.array(np.arange(sizes[key.name], dtype=np.int32))]  # noqa: E731
    made = fill_keys(pair, {}, parents, ids, rng, rows=2000, own="pair_f0")
    assert made.rows >= 1997
    assert (np.bincount(made.columns["a"].to_numpy(), minlength=100) >= 17).all()


@pytest.mark.parametrize("rule", ["pairs", "unlike"])
def test_repairs_draw_no_parents_that_nothing_can_refer_to(rule):
    """Two in three parents have no code; what had to be drawn again was NULL."""
    keys = [(["a"], "p", ["code"]), (["b"], "p", ["code"])]
    more = {"uniques": [["a", "b"]]} if rule == "pairs" else {"checks": ["(a <> b)"]}
    item = table("c", col("id"), col("a"), col("b"), primary=["id"], keys=keys, **more)
    codes = pa.array([i if i % 3 == 0 else None for i in range(60)], pa.int32())
    rng = generator(1)
    drawn = {key.name: rng.integers(60, size=200) for key in item.foreign_keys}
    made = fill_keys(item, {}, drawn, lambda key: [codes], rng, rows=200)
    assert made.rows > 150
    pairs = list(zip(*(made.columns[name].to_pylist() for name in "ab"), strict=True))
    assert None not in {code for pair in pairs for code in pair}
    broken = len(pairs) - len({*pairs}) if rule == "pairs" else sum(a == b for a, b in pairs)
    assert not broken


def test_rows_not_their_own_parents_refer_to_filled_columns():
    keys = [(["boss"], "t", ["code"])]
    item = table("t", col("code", null=True), col("boss"), keys=keys, checks=["(boss <> code)"])
    codes = pa.array([i if i % 3 == 0 else None for i in range(90)], pa.int32())
    own = {"t_f0": np.arange(90)}
    made = fill_keys(item, {"code": codes}, own, lambda key: [], generator(1), rows=90)
    assert made.rows == 90
    assert made.columns["boss"].null_count == 0


def test_a_column_that_must_be_filled_in_takes_any_value_that_parents_have():
    """It took that of the first parent, which may be NULL."""
    c = table("c", col("x", null=True), col("y"), keys=[(("x", "y"), "p", ("a", "b"))])
    parents = [pa.array([1, 2, 3, 4], pa.int32()), pa.array([None, 5, 6, None], pa.int32())]
    index = np.array([-1, 1, -1, 2, -1, -1])
    made = fill_keys(c, {}, {"c_f0": index}, lambda key: parents, generator(1), rows=6)
    assert made.columns["x"].to_pylist() == [None, 2, None, 3, None, None]
    assert made.columns["y"].null_count == 0
    assert set(made.columns["y"].to_pylist()) == {5, 6}


def test_a_column_that_must_be_filled_in_is_generated_where_no_parent_has_a_value():
    keys = [(("x", "y"), "p", ("a", "b"))]
    c = table("c", col("x", null=True), col("y"), uniques=[("y",)], keys=keys)
    none = [pa.array([], pa.int32())] * 2
    made = fill_keys(c, {}, {"c_f0": np.zeros(7)}, lambda key: none, generator(1), rows=7)
    assert made.rows == 7
    assert made.columns["x"].null_count == 7
    assert len(set(made.columns["y"].to_pylist()) - {None}) == 7


def test_a_full_match_of_mixed_columns_is_no_reference_that_may_end():
    c = table("c", col("x", null=True), col("y"), keys=[(("x", "y"), "p", ("a", "b"))])
    (key,) = c.foreign_keys
    c = replace(c, foreign_keys=(replace(key, match="f"),))
    parents = [pa.array([1, 2], pa.int32()), pa.array([8, 9], pa.int32())]
    made = fill_keys(c, {}, {"c_f0": np.full(40, -1)}, lambda key: parents, generator(1), rows=40)
    found = set(zip(*(made.columns[n].to_pylist() for n in ("x", "y")), strict=True))
    assert found == {(1, 8), (2, 9)}


@pytest.mark.parametrize("null", [True, False])
def test_children_of_dropped_rows_go_to_what_these_referred_to(null):
    """They became roots, or their own parents, so that trees of few roots fell apart."""
    t = table("t", col("id"), col("up", null=null), col("v"), primary=("id",), uniques=[("v",)],
              keys=[(("up",), "t", ("id",))], checks=["((v >= 1) AND (v <= 60))"])  # fmt: skip
    rows = 100
    up = np.maximum(np.arange(rows) - 1, 0)
    up[0] = -1 if null else 0
    values = pa.array(np.arange(rows) % 60 + 1, pa.int32())
    made = fill_keys(t, {"v": values}, {"t_f0": up}, None, generator(1), rows=rows)
    assert made.rows == 60
    parents = made.parents["t_f0"]
    roots = np.flatnonzero((parents < 0) | (parents == np.arange(60)))
    assert len(roots) == 1
    assert made.columns["up"].null_count == (1 if null else 0)


def test_who_referred_to_a_dropped_partner_does_not_refer_to_itself():
    """Two by two, rows refer to each other; values of v are too few for all of them."""
    t = table("t", col("id"), col("spouse", null=True), col("v"), primary=("id",), uniques=[("v",)],
              keys=[(("spouse",), "t", ("id",))], checks=["((v >= 1) AND (v <= 60))"])  # fmt: skip
    rows = np.arange(120)
    values = pa.array(np.where(rows % 2, 60, rows // 2 + 1), pa.int32())
    made = fill_keys(t, {"v": values}, {"t_f0": rows ^ 1}, None, generator(1), rows=120)
    assert made.rows == 60
    assert made.columns["spouse"].null_count > 50
    assert not (made.parents["t_f0"] == np.arange(made.rows)).any()


def test_references_to_what_a_repair_moves_stay_unique():
    """Values of v move apart, the references g to them follow, and pairs of both were equal."""
    columns = (col("id"), col("v"), col("f", null=True), col("g", null=True))
    keys = [(("f", "g"), "t", ("id", "v"))]
    t = table("t", *columns, primary=("id",), uniques=[("g", "v")], keys=keys)
    for seed in range(60):
        decoded = {"public.t": modelled_values(t, 25, seed)}
        verify([t], run([t], {"public.t": 25}, decoded, seed))


@pytest.mark.parametrize(
    "checks",
    [["(a < b)", "(a <= b)"], ["(a <= b)", "(a < b)"], ["(b >= a)", "((b > a) OR (b IS NULL))"]],
)
def test_the_stricter_of_two_checks_on_one_pair_holds(checks):
    t = table("t", col("a"), col("b"), checks=checks)
    numbers = generator(1, "pair").integers(1, 50, (2, 400)).astype(np.int32)
    numbers[1, :150] = numbers[0, :150]
    decoded = dict(zip("ab", map(pa.array, numbers), strict=True))
    made = fill_keys(t, decoded, {}, None, generator(2), rows=400)
    a, b = (np.array(made.columns[name].to_pylist()) for name in "ab")
    assert made.rows == 400
    assert (a < b).all()


def roots_above(parents):
    """The last row above every row, and whether going up ends there."""
    above = np.where(parents < 0, np.arange(len(parents)), parents)
    for _ in range(12):
        above = above[above]
    return above, bool((above[above] == above).all())


@pytest.mark.parametrize("null", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_self_references_are_a_forest(null, seed):
    """All rows refer to some row, as where noise hides that a few refer to none."""
    t = table("t", col("id"), col("up", null=null), primary=("id",), keys=[(("up",), "t", ("id",))])
    drawn = {"t_f0": generator(seed).integers(0, 400, 400)}
    made = fill_keys(t, {}, drawn, None, generator(seed), rows=400)
    assert made.rows == 400
    parents = made.parents["t_f0"]
    roots, ends = roots_above(parents)
    assert ends
    assert made.columns["up"].null_count == (len(set(roots)) if null else 0)
    assert 1 <= len(set(roots)) < 20
    assert (parents == drawn["t_f0"]).sum() > 380
    up = [None if place < 0 else made.columns["id"][place].as_py() for place in parents]
    assert made.columns["up"].to_pylist() == up


@pytest.mark.parametrize("null", [True, False])
def test_a_tree_of_every_tenant_has_a_root_and_no_circle(null):
    keys = [(("tenant", "up"), "leaf", ("tenant", "id"))]
    leaf = table("leaf", col("tenant"), col("id"), col("up", null=null),
                 primary=("tenant", "id"), keys=keys)  # fmt: skip
    rng = generator(3)
    tenants = pa.array(np.arange(300) % 3, pa.int32())
    drawn = {"leaf_f0": rng.integers(0, 300, 300)}
    made = fill_keys(leaf, {"tenant": tenants}, drawn, None, rng, rows=300)
    parents = made.parents["leaf_f0"]
    roots, ends = roots_above(parents)
    assert ends
    tenant = np.array(made.columns["tenant"].to_pylist())
    assert (tenant[roots] == tenant).all()
    assert set(tenant[roots]) == {0, 1, 2}
    assert (made.columns["up"].null_count > 0) == null
    verify([leaf], {"public.leaf": made})


def test_one_to_one_circles_that_must_go_on_are_left():
    t = table("t", col("id"), col("next"), primary=("id",), uniques=[("next",)],
              keys=[(("next",), "t", ("id",))])  # fmt: skip
    made = fill_keys(t, {}, {"t_f0": np.roll(np.arange(30), 1)}, None, generator(1), rows=30)
    assert made.rows == 30
    assert sorted(made.columns["next"].to_pylist()) == list(range(1, 31))
