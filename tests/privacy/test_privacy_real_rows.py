"""A whole fit's worth of events on a real private database, and the stability of its trace."""

from __future__ import annotations

import numpy as np
import pytest
from core_toys import release_labels

from privbench.domain import Domain
from privbench.learning.ranges import find_range
from privbench.privacy import (
    Accountant,
    DatabaseSpec,
    KeySpec,
    Ledger,
    Relation,
    Session,
    TableSpec,
    allocate,
    open_session,
)
from privbench.privacy.data import (
    NONE,
    Cells,
    EdgesRecoding,
    Grid,
    Labels,
    LabelsRecoding,
    PrivateDatabase,
    PrivateTable,
)
from privbench.privacy.queries import (
    Children,
    GridHistogram,
    Histogram,
    LabelCounts,
    PairScores,
    PublicArray,
    Total,
)
from privbench.privacy.queries.labels import NORMS
from privbench.privacy.stability import check
from privbench.rng import generator

CITIES = ["Oslo", "Lima", "Riga", "Nowhere-in-particular-7"]


def database(neighbours: str, rows: int = 600) -> PrivateDatabase:
    rng = generator(3, "rows")
    posts = 3 * rows
    owner = rng.integers(0, rows, posts)
    owner[:20] = NONE
    city = np.minimum(rng.geometric(0.5, rows) - 1, 2)
    city[0] = 3
    spec = DatabaseSpec(
        {
            "users": TableSpec("users", {}),
            "posts": TableSpec(
                "posts", {}, (KeySpec("author", "posts", "users", "own", nullable=True),)
            ),
        },
        Relation(neighbours=neighbours),
    )
    users = PrivateTable(
        rows,
        {
            "age": Cells(rng.integers(0, 8, rows), Domain(8, ordered=True)),
            "city": Labels(city, CITIES),
            "income": Grid(np.arange(rows) * 100),
        },
        {},
    )
    kinds = Cells(rng.integers(0, 3, posts), Domain(3))
    return PrivateDatabase(
        spec, {"users": users, "posts": PrivateTable(posts, {"kind": kinds}, {"author": owner})}
    )


def fit(session: Session) -> dict[str, np.ndarray]:
    """Totals, a category list, histograms, a fan-out, all within the budget."""
    spec = session.spec
    queries = {
        "users": Total("users"),
        "posts": Total("posts"),
        "age": Histogram.of(spec, "users", ["age"]),
        "kind": Histogram.of(spec, "posts", ["kind"]),
        "fan-out": Histogram(
            "users", (Children(spec.tables["posts"].key("author"), (0, 1, 2, 3, 5, 9)),)
        ),
    }
    shares = {name: (1.0, query.roots(spec)) for name, query in queries.items()}
    shares["cities"] = (1.0, spec.roots("users"))
    amounts = allocate(shares, session.amount_total)
    results = {name: session.measure(query, amounts[name], name) for name, query in queries.items()}
    listed = release_labels(
        session,
        LabelCounts("users", "city", norm=NORMS[session.accounting]),
        amounts["cities"],
        session.delta_total,
        "cities",
    )
    cities = listed.labels
    session.recode("users", "city", LabelsRecoding(cities, other=True, nullable=True))
    results["cities"] = np.array(cities)
    return results


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_a_fit_on_real_rows(tmp_path, accounting, neighbours):
    data = database(neighbours)
    accountant = Accountant(accounting, 20.0, 1e-6)
    with open_session(data, accountant, tmp_path, "shop") as session:
        results = fit(session)
    assert set(results["cities"]) == set(CITIES[:3])
    assert results["users"].sum() == pytest.approx(600, abs=40)
    assert results["age"].sum() == pytest.approx(600, abs=60)
    assert session.spec.tables["users"].attributes["city"].size == 5
    spent = session.guarantee()
    assert 19.9 < spent.epsilon <= 20.0
    assert spent.delta <= 1e-6
    shown = Ledger.open(tmp_path, "shop").show()
    assert shown["releases"][0]["epsilon"] <= 20.0
    assert shown["releases"][0]["events"] == 6


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_trace_holds_its_claims_on_neighbours(tmp_path, neighbours):
    data = database(neighbours, rows=60)
    with open_session(data, Accountant("pure", 20.0, 1e-6), tmp_path, "shop") as session:
        fit(session)
    again = database(neighbours, rows=60)
    report = check([step.query for step in session.trace], again, recodings=data.recodings)
    assert report.ok, report
    assert report.neighbours > 1
    assert len(report.worst) == 6


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_a_range_on_real_rows(tmp_path, accounting):
    """Incomes lie in [0, 60000): noisy histograms tell both ends, and where rows are."""
    data = database("add-remove")
    points = np.arange(-100_000, 200_000, 1000)
    query = GridHistogram("users", "income", PublicArray(points))
    with open_session(data, Accountant(accounting, 20.0, 1e-6), tmp_path, "shop") as session:
        amount = session.amount_total / 5
        draws = [session.measure(query, amount, f"range {number}") for number in range(5)]
        sd = session.noise_scale(query, amount)
    # By itself each draw takes noise for rows about once in fifty times.
    first, last = np.median([find_range(noisy, sd) for noisy in draws], axis=0).astype(int)
    assert points[first - 1] == pytest.approx(0, abs=3000)
    assert points[last] == pytest.approx(60_000, abs=3000)
    assert draws[0][first : last + 1].mean() == pytest.approx(10, abs=1)


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_selection_on_real_rows(tmp_path, accounting):
    """Of two predictions of one table, the one without rows is the farther."""
    data = database("add-remove")
    data.recode("users", "income", EdgesRecoding(tuple(range(0, 60_001, 6000))))
    flat = [np.full((8, 10), 600 / 80), np.full((8, 10), 0.0)]
    with open_session(data, Accountant(accounting, 20.0, 1e-6), tmp_path, "shop") as session:
        query = PairScores.of(
            session.spec, "users", ("age", "income"), [(0, 1), (0, 1)], flat, penalties=[0.0, 0.0]
        )
        best = session.select(query, session.amount_total, "farthest from its prediction")
    assert best == 1
