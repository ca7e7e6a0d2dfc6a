"""Proposals on schemas of the kinds that people have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from privbench.roles import Kind, Proposal, propose, render
from privbench.schema import Schema

Read = Callable[[str], Schema]


def _owners(proposal: Proposal) -> dict[str, str]:
    """``table: owner.columns`` of every owned table, without the schema's name."""
    return {
        name.removeprefix("public."): f"{str(item.owner).removeprefix('public.')}"
        f" by {', '.join(item.own)}"
        for name, item in proposal.tables.items()
        if item.own is not None
    }


STATS = """
users
  id pk
  reputation
  creationdate timestamp

posts
  id pk
  posttypeid smallint
  owneruserid -> users
  lasteditoruserid -> users

badges
  id pk
  userid -> users
  date timestamp

postlinks
  id pk
  postid -> posts
  relatedpostid -> posts

tags
  id pk
  count
  excerptpostid -> posts
"""

FORMULA = """
drivers
  driverid pk
  forename text
  surname text
  dob date

constructors
  constructorid pk
  name text

seasons
  year pk
  url text

status
  statusid pk
  status text

races
  raceid pk
  year -> seasons
  round
  name text

results
  resultid pk
  raceid -> races
  driverid -> drivers
  constructorid -> constructors
  statusid -> status
  points numeric

pit_stops
  raceid pk -> races
  driverid pk -> drivers
  stop pk
  lap

constructor_standings
  id pk
  raceid -> races
  constructorid -> constructors
  points numeric
"""

SHOP = """
customers
  id pk
  email text unique
  first_name text
  shipping_city_id -> cities

cities -- Look-up table of cities
  id smallint pk
  name text

employees
  id pk
  last_name text
  hire_date date
  manager_id -> employees

products
  id pk
  name text
  category_id ! -> categories
  price numeric

categories
  id smallint pk
  name text unique

orders
  id pk
  employee_id -> employees
  customer_id ! -> customers
  placed_at timestamp

order_items
  order_id pk -> orders cascade
  line pk
  product_id ! -> products
  quantity

reviews
  id pk
  product_id ! -> products
  customer_id -> customers set null
  stars smallint
"""

CLINIC = """
people.patient
  patient_id pk
  birth_date date
  sex char1

care.visit
  visit_id pk
  provider_id -> care.provider
  patient_id ! -> people.patient
  started timestamp

care.provider
  provider_id pk
  name text
  npi text

care.measurement
  id pk
  visit_id ! -> care.visit
  concept_id ! -> care.concept
  value numeric

care.concept
  concept_id pk
  name text
  vocabulary text
"""

BANK = """
client
  client_id pk
  birth_date date
  gender char1

account
  account_id pk
  opened date

disposition
  id pk
  client_id ! -> client
  account_id ! -> account
  type text

card
  card_id pk
  disposition_id ! -> disposition
  issued date

loan
  loan_id pk
  account_id ! -> account
  amount numeric
"""

CASES = {
    "Stack Exchange": (
        STATS,
        {
            "posts": "users by owneruserid",
            "badges": "users by userid",
            "postlinks": "posts by postid",
        },
        {"tags"},
    ),
    "Formula 1": (
        FORMULA,
        {
            "results": "drivers by driverid",
            "pit_stops": "drivers by driverid",
            "constructor_standings": "constructors by constructorid",
        },
        {"seasons", "status"},
    ),
    "shop": (
        SHOP,
        {
            "orders": "customers by customer_id",
            "order_items": "orders by order_id",
            "reviews": "customers by customer_id",
        },
        {"categories", "cities"},
    ),
    "clinic in two schemas": (
        CLINIC,
        {
            "care.visit": "people.patient by patient_id",
            "care.measurement": "care.visit by visit_id",
        },
        {"care.concept"},
    ),
    "bank": (
        BANK,
        {
            "disposition": "client by client_id",
            "card": "disposition by disposition_id",
            "loan": "account by account_id",
        },
        set(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_forest_and_lookups(case: str, read: Read) -> None:
    text, owners, lookups = CASES[case]
    proposal = propose(read(text))
    assert proposal.unit == "owner"
    assert _owners(proposal) == owners
    assert {name.removeprefix("public.") for name in proposal.lookups} == lookups


@pytest.mark.parametrize("case", CASES)
def test_every_table_has_one_line_of_reason_and_a_line_in_the_text(case: str, read: Read) -> None:
    proposal = propose(read(CASES[case][0]))
    lines = render(proposal).splitlines()
    for name, item in proposal.tables.items():
        assert item.role == "private"
        assert item.reason
        assert "\n" not in item.reason
        short = name.removeprefix("public.")
        assert sum(line.split()[:1] == [short] or f"└ {short} " in line for line in lines) >= 1


def test_order_of_tables_and_keys_changes_nothing(read: Read) -> None:
    schema = read(SHOP)
    turned = Schema(tuple(reversed(schema.tables)))
    assert _owners(propose(schema)) == _owners(propose(turned))


def test_two_person_like_owners_are_both_named(read: Read) -> None:
    proposal = propose(read(FORMULA))
    (tie,) = proposal.tables["public.results"].ties
    assert "public.drivers" in tie
    assert "public.constructors" in tie
    assert not proposal.tables["public.pit_stops"].ties
    assert "constructorid reaches public.constructors" in render(proposal)


def test_two_keys_to_the_same_people_are_a_tie(read: Read) -> None:
    proposal = propose(
        read("""
users
  id pk
  email text

transfers
  id pk
  sender_id ! -> users
  payee_id ! -> users
""")
    )
    assert _owners(proposal) == {"transfers": "users by sender_id"}
    (tie,) = proposal.tables["public.transfers"].ties
    assert "payee_id" in tie


def test_spread_over_address_and_household(read: Read) -> None:
    proposal = propose(
        read("""
customer
  id pk
  email text
  address_id ! -> address
  household_id -> household
  store_id ! -> store

address
  id pk
  street text

household
  id pk
  size

store
  id pk
  name text
""")
    )
    lines = proposal.tables["public.customer"].spread
    assert len(lines) == 2
    assert "address_id points to public.address" in lines[0]
    assert "household_id points to public.household" in lines[1]
    assert "ε does not hold per person" in render(proposal)


def test_no_people_proposes_rows(read: Read) -> None:
    proposal = propose(
        read("""
sensor
  id pk
  model text

sample
  id pk
  sensor_id ! -> sensor cascade
  value numeric
""")
    )
    assert proposal.unit == "row"
    assert proposal.tables["public.sample"].own is None
    assert "No table seems to hold people" in render(proposal)


def test_a_guest_order_is_a_unit(read: Read) -> None:
    proposal = propose(
        read("""
booking
  id pk
  contact_name text
  email text
  price numeric

booking_line
  booking_id pk -> booking cascade
  line pk
  article text
""")
    )
    assert proposal.tables["public.booking"].kind is Kind.GUEST
    assert _owners(proposal) == {"booking_line": "booking by booking_id"}


def test_deputies_own_nothing_unless_the_catalog_cascades(read: Read) -> None:
    text = """
users
  id pk
  email text

document
  id pk
  approved_by_id -> users{}
"""
    assert _owners(propose(read(text.format("")))) == {}
    assert _owners(propose(read(text.format(" cascade")))) == {
        "document": "users by approved_by_id"
    }


@pytest.mark.parametrize(("column", "own"), [("created_by", True), ("checked_by", False)])
def test_makers_own_and_checkers_do_not(column: str, own: bool, read: Read) -> None:
    proposal = propose(read(f"users\n  id pk\n\ndocument\n  id pk\n  {column} -> users"))
    assert bool(_owners(proposal)) is own


def test_set_null_to_a_thing_stays_ref(read: Read) -> None:
    text = """
users
  id pk

trips
  id pk
  user_id ! -> users

photos
  id pk
  trip_id -> trips{}
  trip_name text
"""
    assert "photos" in _owners(propose(read(text.format(""))))
    assert "photos" not in _owners(propose(read(text.format(" set null"))))


def test_cycles_break_at_the_nullable_key(read: Read) -> None:
    proposal = propose(
        read("""
users
  id pk
  email text

threads
  id pk
  user_id -> users
  opening_message_id -> messages

messages
  id pk
  thread_id ! -> threads cascade
""")
    )
    assert _owners(proposal) == {
        "threads": "users by user_id",
        "messages": "threads by thread_id",
    }


def test_cycle_of_two_without_people_between(read: Read) -> None:
    proposal = propose(
        read("""
users
  id pk

a_thing
  id pk -> b_thing cascade
  user_id ! -> users cascade

b_thing
  id pk -> a_thing cascade
""")
    )
    owners = _owners(proposal)
    assert owners["a_thing"].startswith("users")
    assert owners["b_thing"].startswith("a_thing")


def test_self_reference_never_owns(read: Read) -> None:
    proposal = propose(read("employee\n  id pk\n  boss_id ! -> employee cascade\n  name text"))
    assert proposal.tables["public.employee"].own is None


def test_person_extended_by_a_role(read: Read) -> None:
    proposal = propose(
        read("""
person
  id pk
  first_name text
  birth_date date

student
  id pk -> person
  year

teacher
  id pk
  person_id ! -> person

project_members
  id pk
  project_id ! -> projects
  person_id ! -> person
  since date

projects
  id pk
  title text
""")
    )
    assert _owners(proposal) == {
        "student": "person by id",
        "teacher": "person by person_id",
        "project_members": "person by person_id",
    }
    assert proposal.tables["public.teacher"].kind is Kind.ROLE


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("agent\n  id pk\n  url text", Kind.THING),
        ("agent\n  id pk\n  phone_number text\n  last_name text", Kind.WORK),
        ("tbl_customer_master\n  id pk", Kind.SUBJECT),
        ("credit_card\n  id pk\n  expires date", Kind.PROXY),
        ("schema_migrations\n  version pk", Kind.INFRA),
        ("census\n  id pk\n  age\n  sex text", Kind.GUEST),
        ("artist\n  id pk\n  name text", Kind.FIGURE),
        ("address\n  id pk\n  street text\n  phone text", Kind.SATELLITE),
        ("shop\n  id pk\n  phone text\n  email text", Kind.STRUCTURE),
    ],
)
def test_kind_of_a_lone_table(table: str, kind: Kind, read: Read) -> None:
    (item,) = propose(read(table)).tables.values()
    assert item.kind is kind


def test_lookups_are_vetoed_by_personal_columns_and_by_keys_to_people(read: Read) -> None:
    text = """
users
  id pk
  category_id -> category

category
  id smallint pk
  name text
  {}
"""
    assert propose(read(text.format("rank"))).lookups == ("public.category",)
    assert propose(read(text.format("contact_name text"))).lookups == ()
    assert propose(read(text.format("made_for_user_id -> users"))).lookups == ()


def test_lookup_into_private_stays_private(read: Read) -> None:
    proposal = propose(read(STATS))
    assert proposal.lookups == ("public.tags",)
    assert proposal.public() == frozenset()
    assert "stays private" in render(proposal)


def test_implied_keys_are_reported_and_not_applied(read: Read) -> None:
    proposal = propose(
        read("""
users
  id pk
  email text

orders
  id pk
  user_id -> users

visits
  id pk
  user_id
  order_id
  page_id

notes
  id pk
  orderid text
""")
    )
    found = {(item.table, item.column): item.parent for item in proposal.implied}
    assert found == {
        ("public.visits", "user_id"): "public.users",
        ("public.visits", "order_id"): "public.orders",
    }
    assert proposal.tables["public.visits"].own is None


def test_only_nullable_keys_still_find_the_owner(read: Read) -> None:
    proposal = propose(
        read("""
client
  id pk

contract
  id pk
  office_id -> office
  client_id -> client

office
  id pk
  name text
""")
    )
    assert _owners(proposal) == {"contract": "client by client_id"}


def test_composite_tenant_keys(read: Read) -> None:
    proposal = propose(
        read("""
tenants
  id pk
  name text

users
  tenant_id pk -> tenants cascade
  id pk
  email text

orders
  tenant_id pk -> tenants cascade
  id pk
  user_id !
  key (tenant_id, user_id) -> users
""")
    )
    owners = _owners(proposal)
    assert owners["orders"] == "users by tenant_id, user_id"


def test_a_message_names_sender_and_recipient(read: Read) -> None:
    proposal = propose(
        read("""
users
  id pk
  email text

messages
  id pk
  recipient_id ! -> users cascade
  sender_id -> users
  body text
""")
    )
    assert _owners(proposal) == {"messages": "users by sender_id"}
    (tie,) = proposal.tables["public.messages"].ties
    assert "recipient_id reaches public.users" in tie


@pytest.mark.parametrize("column", ["moderator", "captain_id", "chairman"])
def test_who_leads_does_not_own(read: Read, column: str) -> None:
    proposal = propose(
        read(f"""
person
  id pk
  last_name text
  birth_date date

club
  id pk
  {column} -> person set null
""")
    )
    assert "club" not in _owners(proposal)


def test_managers_do_not_own_stores(read: Read) -> None:
    proposal = propose(
        read("""
staff
  id pk
  last_name text
  store_id ! -> store

store
  id pk
  manager_staff_id ! -> staff
  address_id ! -> address

address
  id pk
  street text

inventory
  id pk
  film_id ! -> film
  store_id ! -> store

film
  id pk
  title text

rental
  id pk
  inventory_id ! -> inventory
  staff_id ! -> staff
  rented timestamp
""")
    )
    assert _owners(proposal) == {"rental": "staff by staff_id"}
    assert proposal.tables["public.store"].kind is Kind.STRUCTURE
    assert proposal.tables["public.inventory"].kind is Kind.THING


def test_the_author_of_a_comment_under_anothers_post_is_named(read: Read) -> None:
    proposal = propose(
        read("""
users
  id pk

posts
  id pk
  user_id ! -> users cascade

post_comments
  id pk
  post_id ! -> posts cascade
  author_id ! -> users
""")
    )
    assert _owners(proposal)["post_comments"] == "posts by post_id"
    (tie,) = proposal.tables["public.post_comments"].ties
    assert "author_id reaches public.users" in tie


PARTNERS = """
res_users
  id pk
  login text
  password text

res_partner
  id pk
  name text
  email text
  phone text
  user_id -> res_users set null

sale_order
  id pk
  partner_id ! -> res_partner
  user_id -> res_users set null
"""


def test_a_partner_with_personal_columns_owns_before_the_salesperson(read: Read) -> None:
    proposal = propose(read(PARTNERS))
    assert _owners(proposal) == {"sale_order": "res_partner by partner_id"}
    firm = propose(read(PARTNERS.replace("  email text\n  phone text\n", "")))
    assert _owners(firm)["sale_order"] == "res_users by user_id"
