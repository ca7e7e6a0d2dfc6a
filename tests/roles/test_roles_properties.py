"""What holds for every schema: a forest, keys that exist, a config that resolves."""

from hypothesis import given, settings
from hypothesis import strategies as st

from privbench.config import Config
from privbench.roles import propose, render, resolve
from privbench.schema import Column, ColumnType, ForeignKey, Schema, Table, TableName, Unique
from privbench.words import noun, words

_NAMES = [
    "users", "customers", "orders", "order_items", "status", "accounts", "address", "employees",
    "teams", "user_roles", "widgets", "sessions", "countries", "film_actor", "d_unit", "T", "_x9",
]  # fmt: skip
_COLUMNS = ["email", "birth_date", "name", "price", "note", "sex", "created_at"]
_KEYS = ["user_id", "owner_id", "parent_id", "editor_id", "made_by", "ref", "customerid", "k"]
_TYPES = {"email": "S", "name": "S", "note": "S", "sex": "S", "birth_date": "D", "created_at": "D"}


@st.composite
def _schemas(draw):
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=8, unique=True))
    return Schema(tuple(_table(draw, name, names) for name in sorted(names)))


def _table(draw, name, names):
    columns = [Column("id", 1, ColumnType("int", "int4", category="N"), not_null=True)]
    for word in draw(st.lists(st.sampled_from(_COLUMNS), max_size=4, unique=True)):
        kind = ColumnType(word, word, category=_TYPES.get(word, "N"))
        columns.append(Column(word, len(columns) + 1, kind))
    keys = []
    for word in draw(st.lists(st.sampled_from(_KEYS), max_size=4, unique=True)):
        kind = ColumnType("int", "int4", category="N")
        columns.append(Column(word, len(columns) + 1, kind, not_null=draw(st.booleans())))
        parent = TableName("public", draw(st.sampled_from(names)))
        action = draw(st.sampled_from("acn"))
        keys.append(
            ForeignKey(f"f{word}", TableName("public", name), (word,), parent, ("id",), action)
        )
    in_primary = ["id", *(key.columns[0] for key in keys)]
    primary = draw(st.lists(st.sampled_from(in_primary), max_size=3, unique=True))
    return Table(
        TableName("public", name),
        tuple(columns),
        Unique("pk", tuple(primary), primary=True) if primary else None,
        foreign_keys=tuple(keys),
    )


@settings(max_examples=60, deadline=None)
@given(_schemas())
def test_every_proposal_is_a_forest_that_the_config_accepts(schema):
    proposal = propose(schema)
    for lookups in ("private", "public"):
        config = Config.loads(proposal.to_config(Config(), lookups).dumps())
        owners = resolve(schema, config)
        for name, own in owners.items():
            assert own is None or own in {key.columns for key in schema.table(name).foreign_keys}
    for item in proposal.tables.values():
        line, steps = item, 0
        while line.owner is not None:
            line, steps = proposal.tables[line.owner], steps + 1
            assert steps <= len(proposal.tables)
    assert all(name in render(proposal) for name in (table.name.name for table in schema))


@settings(max_examples=40, deadline=None)
@given(_schemas(), st.randoms(use_true_random=False))
def test_the_order_of_tables_and_keys_decides_nothing(schema, random):
    shuffled = list(schema.tables)
    random.shuffle(shuffled)
    first, second = propose(schema), propose(Schema(tuple(shuffled)))
    assert {n: t.own for n, t in first.tables.items()} == {
        n: t.own for n, t in second.tables.items()
    }


@given(st.text(max_size=30))
def test_any_name_can_be_split(name):
    found = words(name)
    assert all(word == word.lower() and word.strip() for word in found)
    assert found or not any(letter.isalpha() for letter in name)
    kept = noun(name)
    assert kept in {
        found[low:high] for low in range(len(found) + 1) for high in range(low, len(found) + 1)
    }
    assert bool(kept) == bool(found)
