"""Settled roles: what the config may say, and what the privacy contract refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from privbench.config import Config
from privbench.errors import ConfigError, PrivbenchError, SchemaError
from privbench.roles import Proposal, propose, resolve
from privbench.schema import Schema

Read = Callable[[str], Schema]

SHOP = """
customers: id pk; email text; city_id -> cities
cities: id smallint pk; name text unique
orders: id pk; customer_id ! -> customers; previous_order_id -> orders; city_id -> cities
order_items: order_id pk -> orders cascade; line pk; quantity
"""


@pytest.fixture(scope="module")
def shop(read: Read) -> Schema:
    return read(SHOP)


@pytest.fixture(scope="module")
def proposal(shop: Schema) -> Proposal:
    return propose(shop)


def _config(text: str) -> Config:
    return Config.loads(text)


def test_an_empty_config_makes_every_row_a_root(shop: Schema) -> None:
    assert resolve(shop, Config()) == dict.fromkeys([table.key for table in shop])


def test_the_proposal_fills_what_is_open(shop: Schema, proposal: Proposal) -> None:
    assert resolve(shop, proposal.to_config(Config())) == {
        "public.cities": None,
        "public.customers": None,
        "public.order_items": ("order_id",),
        "public.orders": ("customer_id",),
    }


def test_the_config_wins_over_the_proposal(shop: Schema, proposal: Proposal) -> None:
    owners = resolve(shop, proposal.to_config(_config("[tables.orders]\nown = []")))
    assert owners["public.orders"] is None
    assert owners["public.order_items"] == ("order_id",)


def test_any_spelling_of_a_table_is_found(shop: Schema) -> None:
    for name in ("orders", '"public.orders"', "'\"orders\"'"):
        owners = resolve(shop, _config(f'[tables.{name}]\nown = ["customer_id"]'))
        assert owners["public.orders"] == ("customer_id",)


REFUSED = {
    "unknown table": (
        '[tables."public.order"]\nown = []', ConfigError, ["public.order", "public.orders"]
    ),
    "table twice": (
        '[tables.orders]\nown = []\n[tables."public.orders"]\nown = []', ConfigError, ["twice"]
    ),
    "unknown column": (
        '[tables.orders.columns.custmer_id]\nkind = "text"', ConfigError, ["customer_id"]
    ),
    "unknown own column": (
        '[tables.orders]\nown = ["client"]', ConfigError, ["public.orders", "client"]
    ),
    "own is no key": (
        '[tables.orders]\nown = ["id"]', SchemaError, ["public.orders", "customer_id"]
    ),
    "own without any key": (
        '[tables.cities]\nown = ["id"]', SchemaError, ["no foreign key", "own = []"]
    ),
    "own into a public table": (
        '[tables.cities]\nrole = "public"\n[tables.orders]\nown = ["city_id"]',
        SchemaError, ["public.orders", "public.cities", "declare"],
    ),
    "public into private": (
        '[tables.orders]\nrole = "public"', SchemaError, ["Declare public.orders private", "drop"]
    ),
    "public with an owner": (
        '[tables.customers]\nrole = "public"\nown = ["city_id"]', ConfigError, ["has no owner"]
    ),
    "self-reference": (
        '[tables.orders]\nown = ["previous_order_id"]', SchemaError, ["own table", "REF"]
    ),
    "own under unit row": (
        '[privacy]\nunit = "row"\n[tables.orders]\nown = ["customer_id"]',
        SchemaError, ["unit = 'row'", "own = []"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_place_and_the_way_out(case: str, shop: Schema) -> None:
    text, kind, words = REFUSED[case]
    with pytest.raises(PrivbenchError) as caught:
        resolve(shop, _config(text))
    assert type(caught.value) is kind
    assert caught.value.table
    for word in words:
        assert word in str(caught.value)


def test_cycles_are_refused_and_named(read: Read) -> None:
    schema = read("a: id pk; b_id -> b\nb: id pk; c_id -> c\nc: id pk; a_id -> a")
    text = "".join(f'[tables.{t}]\nown = ["{p}_id"]\n' for t, p in ("ab", "bc", "ca"))
    with pytest.raises(SchemaError, match=r"public.a → public.b → public.c → public.a"):
        resolve(schema, _config(text))


def test_a_tail_into_a_cycle_is_refused_too(read: Read) -> None:
    schema = read("a: id pk; b_id -> b\nb: id pk; c_id -> c\nc: id pk; b_id -> b")
    text = "".join(f'[tables.{t}]\nown = ["{p}_id"]\n' for t, p in ("ab", "bc", "cb"))
    with pytest.raises(SchemaError, match="cycle"):
        resolve(schema, _config(text))


def test_own_into_an_excluded_table_is_refused(shop: Schema) -> None:
    part = Schema(tuple(table for table in shop if table.name.name != "customers"))
    with pytest.raises(SchemaError, match="not part of the clone"):
        resolve(part, _config('[tables.orders]\nown = ["customer_id"]'))


def test_to_config_is_complete_stamped_and_readable(shop: Schema, proposal: Proposal) -> None:
    config = proposal.to_config(_config("[privacy]\nepsilon = 2.0"))
    again = Config.loads(config.dumps())
    assert again.privacy.roles == "proposed"
    assert again.privacy.epsilon == 2.0
    assert {name: section.own for name, section in again.tables.items()} == {
        "public.cities": [],
        "public.customers": [],
        "public.order_items": ["order_id"],
        "public.orders": ["customer_id"],
    }
    assert resolve(shop, again) == resolve(shop, proposal.to_config(Config()))


def test_public_lookups_are_declared_only_when_asked(shop: Schema, proposal: Proposal) -> None:
    assert proposal.lookups == ("public.cities",)
    private = proposal.to_config(Config())
    public = proposal.to_config(Config(), lookups="public")
    assert private.tables["public.cities"].role == "private"
    assert public.tables["public.cities"].role == "public"
    assert resolve(shop, public)["public.orders"] == ("customer_id",)


def test_the_base_config_decides_first(shop: Schema, proposal: Proposal) -> None:
    text = """
    [tables.cities]
    role = "private"
    [tables.orders]
    own = ["city_id"]
    tau = 5
    """
    config = proposal.to_config(_config(text), lookups="public")
    assert config.tables["cities"].role == "private"
    assert config.tables["orders"].own == ["city_id"]
    assert config.tables["orders"].tau == 5
    assert resolve(shop, config)["public.order_items"] == ("order_id",)


def test_a_proposal_never_closes_a_cycle_with_the_base(read: Read) -> None:
    schema = read("""
users: id pk; email text; profile_id -> notes
notes: id pk; user_id ! -> users cascade
""")
    found = propose(schema)
    assert resolve(schema, found.to_config(Config()))["public.notes"] == ("user_id",)
    config = found.to_config(_config('[tables.users]\nown = ["profile_id"]'))
    assert resolve(schema, config) == {"public.users": ("profile_id",), "public.notes": None}


def test_children_of_a_public_table_become_roots(shop: Schema, proposal: Proposal) -> None:
    base = _config('[tables.cities]\nrole = "public"\n[tables.customers]\nrole = "public"')
    owners = resolve(shop, proposal.to_config(base))
    assert owners["public.orders"] is None
    assert owners["public.order_items"] == ("order_id",)


def test_unit_row_in_the_base_owns_nothing(shop: Schema, proposal: Proposal) -> None:
    config = proposal.to_config(_config('[privacy]\nunit = "row"'))
    assert config.privacy.unit == "row"
    assert set(resolve(shop, config).values()) == {None}


def test_no_people_sets_unit_row(read: Read) -> None:
    found = propose(read("sensor: id pk\nsample: id pk; sensor_id ! -> sensor cascade"))
    assert found.to_config(Config()).privacy.unit == "row"
