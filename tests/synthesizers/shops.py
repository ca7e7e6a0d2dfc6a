"""A private shop of six tables, and sessions on it."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from private_tables import private_database, single_table, started

from privbench.domain import Domain
from privbench.privacy import KeySpec, Relation, SeededNoise
from privbench.privacy.mechanisms import SelectionMechanism
from privbench.synthesizers.graphical import GraphicalSynthesizer

COUNTRIES = 12


class Exact(SeededNoise):
    """Draws nothing: statistics are exact."""

    def draw(self, method, exact, stream):
        if method.threshold is not None:
            return super().draw(method, exact, stream)
        return (
            int(np.argmax(exact))
            if isinstance(method.mechanism, SelectionMechanism)
            else exact.copy()
        )


def own(name, table, parent, **more):
    return KeySpec(name, table, parent, "own", **more)


def ref(name, table, parent, **more):
    return KeySpec(name, table, parent, "ref", **more)


SHOP = {
    "users": [KeySpec("country", "users", "countries", "public")],
    "profiles": [own("user", "profiles", "users", unique=True)],
    "orders": [own("user", "orders", "users", nullable=True), ref("product", "orders", "products")],
    "items": [own("order", "items", "orders")],
    "products": [ref("bundle", "products", "products", nullable=True)],
    "badges": [],
}


def make_shop(users, seed=1, unit="owner", neighbours="add-remove"):
    """Users with heavy-tailed orders; items depend on nothing but their order's existence."""
    g = np.random.default_rng(seed)
    products = max(users // 10, 0)
    counts = np.floor(g.pareto(1.5, users) * 2).astype(int).clip(0, 200)
    owners = np.repeat(np.arange(users), counts)
    orphans = users // 20
    owners = np.concatenate([owners, np.full(orphans, -1)]) if products else owners[:0]
    orders = len(owners)
    per_order = g.poisson(1.5, orders)
    has_profile = np.flatnonzero(g.random(users) < 0.6)
    kind = g.integers(0, 3, users)
    tables = {
        "users": (
            users,
            {
                "kind": (kind, Domain(3)),
                "age": (kind * 20 + g.integers(0, 20, users), Domain(60, ordered=True)),
            },
            {"country": g.choice(COUNTRIES, users, p=np.arange(1, 13) / 78)},
        ),
        "profiles": (
            len(has_profile),
            {"style": (g.integers(0, 4, len(has_profile)), Domain(5, nullable=True))},
            {"user": has_profile},
        ),
        "orders": (
            orders,
            {"state": (g.choice(3, orders, p=[0.7, 0.2, 0.1]), Domain(3))},
            {"user": owners, "product": np.floor(products * g.random(orders) ** 3).astype(int)},
        ),
        "items": (
            int(per_order.sum()),
            {"size": (g.integers(0, 4, per_order.sum()), Domain(4))},
            {"order": np.repeat(np.arange(orders), per_order)},
        ),
        "products": (
            products,
            {},
            {
                "bundle": np.where(
                    g.random(products) < 0.7, -1, g.integers(0, max(products, 1), products)
                )
            },
        ),
        "badges": (users // 2, {"one": (np.zeros(users // 2, int), Domain(1))}, {}),
    }
    held = {}
    for name, (rows, attributes, parents) in tables.items():
        keys = [
            replace(key, role="ref") if unit == "row" and key.role == "own" else key
            for key in SHOP[name]
        ]
        held[name] = rows, attributes, {key: parents[key.name] for key in keys}
    return private_database(held, Relation(neighbours, unit))


@pytest.fixture
def shop():
    """Factory of shops: (users, seed, unit, neighbours) → private database."""
    return make_shop


@pytest.fixture
def table():
    """Factory of databases of one table ``t`` from columns of codes and domains."""
    return single_table


@pytest.fixture
def begin(tmp_path):
    """``begin(database, epsilon, accounting, noise)``: see `started`; each in its own ledger."""
    number = count()

    def start(database, epsilon=3.2, accounting="pure", noise=None):
        source = Exact(1) if noise == "none" else SeededNoise(noise or 1)
        return started(database, tmp_path / str(next(number)), epsilon, accounting, source)

    return start


@pytest.fixture
def sample(begin):
    """``sample(database, epsilon, ...)``: rows of a graphical model that its file gave back."""

    def drawn(database, epsilon=3.2, accounting="zcdp", noise=None, public=None, seed=1):
        session, totals, amount = begin(database, epsilon, accounting, noise)
        model = GraphicalSynthesizer().fit(session, totals, amount, public)
        return type(model).from_state(*model.to_state(), None).sample(1.0, seed)

    return drawn
