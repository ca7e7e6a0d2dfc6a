"""Rows counted elsewhere: by the engine, by DuckDB, by workers; the same integers as here."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from typing import Any

import market
import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privbench import pipeline
from privbench.config import Config
from privbench.pipeline.engine import EngineCounter
from privbench.pipeline.extract import extract
from privbench.pipeline.prepare import FitPlan, prepare
from privbench.pipeline.progress import Reporter
from privbench.pipeline.source import read_catalog
from privbench.pipeline.stability import check_trace, trace
from privbench.postgres.reading import reading
from privbench.postgres.snapshot import Snapshot
from privbench.privacy.data import EdgesRecoding, Grid, Labels, LabelsRecoding, PrivateDatabase
from privbench.privacy.queries import Column, Owner, PublicArray, Refers, Whole
from privbench.privacy.queries.counting import Local, Marginals

SCHEMA = """
CREATE TYPE kind AS ENUM ('one', 'two', 'it''s');
CREATE TABLE top (id int PRIMARY KEY, age int2);
CREATE TABLE mid (id int PRIMARY KEY, top_id int REFERENCES top, size int);
CREATE TABLE low (
  id int PRIMARY KEY, mid_id int REFERENCES mid, other int REFERENCES low,
  small int2, whole int, big int8, price numeric(8,2), fine numeric(12,6), day date,
  stamp timestamp, clock time, flag boolean, kind kind,
  listed int CHECK (listed IN (3, 5, 8)), code text CHECK (code IN ('a', 'b''c')), label text);
"""
DUCKDB = find_spec("duckdb") is not None

CONFIG = """
[privacy]
epsilon = 1.0
[tables."public.top"]
own = []
[tables."public.mid"]
own = ["top_id"]
[tables."public.low"]
own = ["mid_id"]
[tables."public.low".columns.whole]
kind = "range"
min = -10
max = 50
[tables."public.low".columns.label]
kind = "categories"
"""
#: What SQL expresses: in PostgreSQL, and in every engine.
PUSHED = {
    "small",
    "whole",
    "big",
    "price",
    "fine",
    "day",
    "flag",
    "listed",
    "code",
    "label",
}
POSTGRES = PUSHED | {"stamp", "clock", "kind"}
CUTS = {"small": 1, "big": 1, "price": 100, "fine": 10**6, "day": 1, "stamp": 86_400_000_000}


def columns() -> st.SearchStrategy[tuple[Any, ...]]:
    def maybe(values: Any) -> Any:
        return st.none() | values

    days = st.dates().map(str) | st.sampled_from(["infinity", "-infinity"])
    return st.tuples(
        maybe(st.integers(0, 5)),
        maybe(st.integers(0, 11)),
        maybe(st.integers(-(2**15), 2**15 - 1) | st.integers(-5, 5)),
        maybe(st.integers(-20, 60)),
        maybe(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)),
        maybe(st.decimals(-999999, 999999, places=2) | st.decimals(-9, 9, places=2)),
        maybe(st.decimals(-9999, 9999, places=6)),
        maybe(days),
        maybe(st.datetimes()),
        maybe(st.times()),
        maybe(st.booleans()),
        maybe(st.sampled_from(["one", "two", "it's"])),
        maybe(st.sampled_from([3, 5, 8])),
        maybe(st.sampled_from(["a", "b'c"])),
        maybe(st.sampled_from(["", "x", "y'z", "Ä", "x" * 200])),
    )


@pytest.fixture(scope="module")
def source(make_database: Any) -> str:
    dsn: str = make_database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SCHEMA)
    return dsn


def planned(source: str) -> FitPlan:
    config = Config.loads(CONFIG)
    with reading(source) as connection:
        return prepare(read_catalog(connection, config).schema, config)


def filled(source: str, rows: list[tuple[Any, ...]]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Owners of every kind, absent ones too; the rows of all tables."""
    low = [
        (k, *row[:1], None if row[1] is None else row[1] % (k + 1), *row[2:])
        for k, row in enumerate(rows)
    ]
    tables = [
        ("top", [(k, k * 7) for k in range(2)]),
        ("mid", [(k, [0, 0, 1, None, None, 1][k], k * 3) for k in range(6)]),
        ("low", low),
    ]
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("TRUNCATE top, mid, low")
        for name, items in tables:
            marks = ", ".join(["%s"] * len(items[0])) if items else ""
            with connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {name} VALUES ({marks})".encode(), items)
    return tables


def settled(database: PrivateDatabase, edges: list[int]) -> None:
    """Recode what has no domain yet, as releases would."""
    for table, held in list(database._tables.items()):
        for name, attribute in list(held._attributes.items()):
            if isinstance(attribute, Grid):
                step = CUTS.get(name, 1)
                cuts = tuple(edge * step for edge in edges)
                database.recode(table, name, EdgesRecoding(cuts, ("above", "-inf", "nan"), True))
            elif isinstance(attribute, Labels):
                database.recode(table, name, LabelsRecoding(("", "y'z", "x"), nullable=True))


def asked(database: PrivateDatabase) -> Marginals:
    spec = database.spec
    low, mid = spec.tables["public.low"], spec.tables["public.mid"]
    single = [Column.of(spec, "public.low", name) for name in low.attributes]
    small = next(axis for axis in single if axis.attribute == "small")
    bins = Column("small", 3, PublicArray([k * 3 // small.size for k in range(small.size)]))
    assert low.own is not None
    assert mid.own is not None
    size = Column.of(spec, "public.mid", "size")
    age = Column.of(spec, "public.top", "age")
    above = [Owner(low.own, size), Owner(low.own, Owner(mid.own, age))]
    refers = [Refers(key) for key in low.keys]
    axes = (Whole(), bins, *above, *refers, *single)
    count = len(axes)
    pairs = tuple((i, j) for i in range(1, 5) for j in range(i + 1, count))
    return Marginals("public.low", axes, (*((k,) for k in range(count)), *pairs))


def same(counter: EngineCounter, database: PrivateDatabase, names: set[str]) -> None:
    marginals = asked(database)
    there, _ = counter.statement(database, marginals)
    found = {marginals.axes[k].label for chosen in there for k in chosen}
    assert names <= found
    pairs = zip(counter.count(database, marginals), Local().count(database, marginals), strict=True)
    for chosen, (one, other) in zip(marginals.sets, pairs, strict=True):
        assert np.array_equal(one, other), [marginals.axes[k].label for k in chosen]


@pytest.mark.parametrize(
    "dialect",
    [
        "postgres",
        pytest.param("duckdb", marks=pytest.mark.skipif(not DUCKDB, reason="no duckdb")),
    ],
)
@given(rows=st.lists(columns(), min_size=1, max_size=25), data=st.data())
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_engines_count_what_this_process_counts(
    source: str, dialect: str, rows: Any, data: Any
) -> None:
    """Codes of every type that is pushed down, alone and in pairs, with weights of deep owners."""
    tables, plan = filled(source, rows), planned(source)
    edges = data.draw(st.sets(st.integers(-9, 9), min_size=2, max_size=7).map(sorted))
    with Snapshot(source) as snapshot:
        database = extract(snapshot, plan, Reporter()).database
        settled(database, edges)
        if dialect == "postgres":
            same(EngineCounter(plan, database, snapshot.ask), database, POSTGRES)
            return
    import duckdb

    with duckdb.connect() as engine:
        engine.execute("CREATE SCHEMA public; USE memory.public;")
        schema = SCHEMA.replace("kind kind,", "kind text,").replace(" REFERENCES low", "")
        engine.execute(schema.split(";", 1)[1])
        for name, items in tables:
            if items:
                marks = ", ".join(["?"] * len(items[0]))
                engine.executemany(f"INSERT INTO {name} VALUES ({marks})", items)
        counter = EngineCounter(
            plan, database, lambda text: engine.execute(text).fetchall(), "duckdb"
        )
        same(counter, database, PUSHED)


class SameRanks:
    """Random ranks that are the same in every fit of a test; of the system they are not."""

    def __init__(self) -> None:
        self.numbers = np.random.default_rng(1)

    def urandom(self, count: int) -> bytes:
        return self.numbers.bytes(count)


def fitted(source: str, where: str, folder: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hash of a seeded model."""
    monkeypatch.setattr("privbench.privacy.units.os", SameRanks())
    config = market.config(folder / "ledger", epsilon=50.0, seed=3).counting_on(where)
    model = pipeline.fit(source, config, folder / f"model-{len(where)}")
    whole = hashlib.sha256(json.dumps([model.state, model.events, model.config]).encode())
    for name in sorted(model.arrays):
        whole.update(name.encode() + np.ascontiguousarray(model.arrays[name]).tobytes())
    return whole.hexdigest()


def test_a_fit_gives_the_same_model_when_the_engine_counts(
    make_database: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model says nothing of where rows were counted, either."""
    source = make_database()
    market.create(source)
    here = fitted(source, "local", tmp_path, monkeypatch)
    assert fitted(source, "engine", tmp_path, monkeypatch) == here


@pytest.mark.slow
def test_a_fit_gives_the_same_model_when_workers_count(
    make_database: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables count as large, so that workers read and count every one."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    source = make_database()
    market.create(source, 400)
    here = fitted(source, "local", tmp_path, monkeypatch)
    monkeypatch.setitem(Snapshot.parts.__kwdefaults__, "least", 1)
    monkeypatch.setattr("privbench.privacy.workers.LEAST_ROWS", 50)
    memory = "distributed.worker.memory"
    with (
        dask.config.set({f"{memory}.target": False, f"{memory}.spill": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
    ):
        assert fitted(source, cluster.scheduler_address, tmp_path, monkeypatch) == here


def test_the_harness_outlives_what_counted(make_database: Any, tmp_path: Any) -> None:
    """Neighbours are evaluated when the fit's snapshot is closed."""
    source = make_database()
    market.create(source, 20)
    traced = trace(source, market.config(tmp_path, epsilon=5.0).counting_on("engine"))
    assert check_trace(traced, ordinary=1, gone=0).ok
