"""Settled roles: what the config may say, and what the privacy contract refuses."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from sql_files import cases

from privbench.config import Config, ReferenceConfig, TableConfig, TargetConfig
from privbench.errors import PrivbenchError, SchemaError
from privbench.roles import propose, resolve
from privbench.roles.references import referenced
from privbench.schema import Schema

Read = Callable[[str], Schema]

SHOP = """
customers: id pk; email text; city_id -> cities
cities: id smallint pk; name text unique
orders: id pk; customer_id ! -> customers; previous_order_id -> orders; city_id -> cities
order_items: order_id pk -> orders cascade; line pk; quantity
"""


@pytest.fixture(scope="module")
def shop(read):
    return read(SHOP)


def _config(text):
    return Config.loads(text)


#: What the proposal makes of the shop, where the config says nothing.
OWNERS = {"cities": None, "customers": None, "orders": "customer_id", "order_items": "order_id"}
NOBODY = dict.fromkeys(OWNERS)
#: A config, what look-ups become, and owners that differ from those.
FILLED = {
    "nothing is decided": ("", "private", {}),
    "look-ups are opened": ("", "public", {}),
    "a root is declared": ("[tables.orders]\nown = []", "private", {"orders": None}),
    "another owner, and a look-up that stays private": (
        '[tables.cities]\nrole = "private"\n[tables.orders]\nown = ["city_id"]\ntau = 5',
        "public", {"orders": "city_id"},
    ),
    "an owner is public": (
        '[tables.cities]\nrole = "public"\n[tables.customers]\nrole = "public"',
        "private", {"orders": None},
    ),
    "rows are units": ('[privacy]\nunit = "row"', "private", NOBODY),
}  # fmt: skip


@pytest.mark.parametrize("case", FILLED)
def test_a_proposal_fills_what_a_config_leaves_open(case, shop):
    text, lookups, other = FILLED[case]
    base = _config(text)
    config = propose(shop).to_config(base, lookups)
    assert Config.loads(config.dumps()) == config
    owners = {name.partition(".")[2]: own and own[0] for name, own in resolve(shop, config).items()}
    assert owners == {**OWNERS, **other}
    assert config.privacy.roles == "proposed"
    given = {f"public.{name}": section for name, section in base.tables.items()}
    for name, section in given.items():
        filled = config.tables[name.partition(".")[2]]
        assert section.model_dump(exclude_unset=True).items() <= filled.model_dump().items()
    opened = {n for n, section in config.tables.items() if section.role == "public"} - {
        *base.tables
    }
    assert opened == ({"public.cities"} if case == "look-ups are opened" else set())


def test_a_config_alone_makes_roots_of_all_but_what_it_names(shop):
    assert resolve(shop, Config()) == dict.fromkeys([table.key for table in shop])
    for name in ("orders", '"public.orders"', "'\"orders\"'"):
        owners = resolve(shop, _config(f'[tables.{name}]\nown = ["customer_id"]'))
        assert owners["public.orders"] == ("customer_id",)
    # Into an excluded table nothing can be owned.
    part = Schema(tuple(table for table in shop if table.name.name != "customers"))
    with pytest.raises(SchemaError, match="not part of the clone"):
        resolve(part, _config('[tables.orders]\nown = ["customer_id"]'))


@pytest.mark.parametrize(("title", "text"), cases(__file__, "refused.txt"))
def test_refusals_name_the_place_and_the_way_out(title, text, shop):
    _, kind, words = title.split(": ")
    with pytest.raises(PrivbenchError) as caught:
        resolve(shop, _config(text))
    assert type(caught.value).__name__ == kind
    assert caught.value.table
    for word in words.split("; "):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "line"),
    [("abca", "public.a → public.b → public.c → public.a"), ("abcb", "form a cycle")],
)
def test_cycles_are_refused_and_named(read, tables, line):
    """Of all tables, or at the end of a tail."""
    pairs = list(pairwise(tables))
    schema = read("\n".join(f"{table}: id pk; {parent}_id -> {parent}" for table, parent in pairs))
    text = "".join(f'[tables.{table}]\nown = ["{parent}_id"]\n' for table, parent in pairs)
    with pytest.raises(SchemaError, match=line):
        resolve(schema, _config(text))


def test_a_proposal_closes_no_cycle_with_the_base_and_without_people_rows_are_units(read):
    schema = read("""
users: id pk; email text; profile_id -> notes
notes: id pk; user_id ! -> users cascade
""")
    found = propose(schema)
    assert resolve(schema, found.to_config(Config()))["public.notes"] == ("user_id",)
    config = found.to_config(_config('[tables.users]\nown = ["profile_id"]'))
    assert resolve(schema, config) == {"public.users": ("profile_id",), "public.notes": None}
    # Without people, rows are units.
    found = propose(read("sensor: id pk\nsample: id pk; sensor_id ! -> sensor cascade"))
    assert found.to_config(Config()).privacy.unit == "row"


def test_columns_whose_names_run_together_make_other_keys(read):
    """The ledger knows an owner by the name of its key: other columns are another definition."""
    schema = read("p: x pk; y pk; email text\nt: id pk; a !; b_c !; a_b !; c !")
    names = set()
    for columns in (["a", "b_c"], ["a_b", "c"]):
        item = ReferenceConfig(columns=columns, to=TargetConfig(table="public.p"))
        config = Config(tables={"public.t": TableConfig(references=[item])})
        (key,) = referenced(schema, config).table("public.t").foreign_keys
        names.add(key.name)
    assert len(names) == 2
