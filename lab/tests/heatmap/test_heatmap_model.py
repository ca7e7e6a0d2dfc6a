"""The circuit of a released model, drawn: against enumeration, and against PostgreSQL."""

import itertools

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from sql_files import cases

from privbench.config import ColumnConfig
from privbench.domain import Domain
from privbench.encoding import Codec, reader
from privbench.encoding.bounds import Bounds, BoundsNeed
from privbench.rng import generator
from privbench.schema import Column, ColumnType, Table, TableName
from privbench_lab.circuit import Builder, log_likelihood
from privbench_lab.heatmap import shares as cells
from privbench_lab.heatmap.conditions import weights
from privbench_lab.heatmap.model_tree import ModelledTable, draw, heats
from privbench_lab.heatmap.routes import drawable, route_of
from privbench_lab.heatmap.tree import Node

SIZES = {"a": 4, "b": 3, "hidden": 3, "c": 5}


def _number(name: str, size: int, *, not_null: bool = True) -> tuple[Column, ColumnConfig]:
    kind = ColumnType("integer", "int4", category="N")
    return Column(name, 1, kind, not_null=not_null), ColumnConfig(kind="range", min=0, max=size - 1)


#: δ with which labels may be released, and what is.
DELTA, LABELS = 1e-6, ("it's {blue} %s", "red", "x")


def _codec(column: Column, config: ColumnConfig) -> Codec:
    plan = reader(column, Table(TableName("public", "t"), (column,)), config, DELTA)
    released = {}
    for need in plan.needs:
        if isinstance(need, BoundsNeed):
            released[need.attribute] = Bounds(10, 60)
        else:
            released[need.attribute] = () if getattr(need, "grid", None) else LABELS
    return plan.finish(released)


@pytest.fixture(scope="module")
def model():
    """a on top; below it b and a column that nobody asks about; c below that one."""
    numbers = generator(5)
    domains = {name: Domain(size, ordered=True) for name, size in SIZES.items()}
    builder = Builder(domains)

    def column(name: str, below: list[int]) -> int:
        leaves = builder.leaves(name, np.eye(SIZES[name]))
        children = [int(leaf) for leaf in leaves]
        if below:
            children = [
                builder.product([leaf, below[place % len(below)]])
                for place, leaf in enumerate(children)
            ]
        return builder.sum(children, numbers.random(SIZES[name]) + 0.1)

    cs = [column("c", []) for _ in range(3)]
    hiddens = [column("hidden", cs) for _ in range(4)]
    bs = [column("b", []) for _ in range(4)]
    both = [builder.product([one, other]) for one, other in zip(bs, hiddens, strict=True)]
    column("a", both)
    above = {"a": None, "b": "a", "hidden": "a", "c": "hidden"}
    codecs = {name: _codec(*_number(name, size)) for name, size in SIZES.items()}
    bins = {name: np.arange(size) for name, size in SIZES.items()}
    bins["c"] = np.array([0, 0, 1, 1, 2])
    return ModelledTable(builder.build(), codecs, above, bins)


def _worlds(model: ModelledTable) -> dict[tuple[int, ...], float]:
    """The probability of every row, by the law of pairs given the others: plain multiplication."""
    worlds = list(itertools.product(*(range(size) for size in SIZES.values())))
    rows = dict(zip(SIZES, np.array(worlds).T, strict=True))
    return dict(zip(worlds, np.exp(log_likelihood(model.circuit, rows)).tolist(), strict=True))


def _share(
    worlds: dict[tuple[int, ...], float], item: Node, query: dict[str, np.ndarray]
) -> tuple[float, float]:
    names = list(SIZES)
    way = met = 0.0
    for world, mass in worlds.items():
        row = dict(zip(names, world, strict=True))
        if not all(mask[row[name]] for name, mask in item.codes.items()):
            continue
        way += mass
        held = [vector[row[name]] for name, vector in query.items() if name in item.columns]
        met += mass * float(np.prod(held))
    return way, met


def test_probabilities_are_those_of_all_worlds(model):
    nodes = draw(model, ["a", "b", "c"])
    worlds = _worlds(model)
    assert sum(worlds.values()) == pytest.approx(1)
    queries = [
        {"a": np.array([0, 1, 0.5, 0]), "c": np.array([0, 1, 1, 0.25, 0])},
        {"b": np.eye(3)[2]},
    ]
    heat = heats(model, nodes, queries)
    assert {item.kind for item in nodes} == {"sum", "product", "leaf"}
    assert (nodes[0].kind, nodes[0].columns) == ("sum", ("a", "b", "c"))
    for place, item in enumerate(nodes):
        below = [heat.rows[at] for at, other in enumerate(nodes) if other.parent == place]
        if item.kind == "sum":  # its branches share out what comes to it
            below = [sum(below)]
        assert below == pytest.approx([heat.rows[place]] * len(below))
        for query, shares in zip(queries, heat.shares, strict=True):
            way, met = _share(worlds, item, query)
            assert heat.rows[place] == pytest.approx(way)
            assert shares[place] == pytest.approx(met / way)


def test_branches_are_drawn_where_columns_part_and_columns_apart_without_them(model):
    """b and c hang on a, which is not asked about: its branches are there, it is no leaf."""
    nodes = draw(model, ["b", "c"])
    assert nodes[0].kind == "sum"
    assert nodes[1].when.startswith("a ")
    assert {item.columns for item in nodes if item.kind == "leaf"} == {("b",), ("c",)}
    # Without branches columns stand apart.
    flat = ModelledTable(model.circuit, model.codecs)
    assert [item.kind for item in draw(flat, ["a", "c"])] == ["product", "leaf", "leaf"]


def _kind(sql_type, base, category, made, **config):
    """A type, the config of a column of it, and an expression of its values."""
    more = {"precision": 8, "scale": 2} if base == "numeric" else {}
    return ColumnType(sql_type, base, category=category, **more), config, made


_DAYS = {"kind": "range", "min": "2020-01-01", "max": "2020-03-01"}
_WORDS = "(ARRAY['red', 'it''s {blue} %s', 'x', 'other'])[1 + i % 4]"
KINDS = {
    "small": _kind("integer", "int4", "N", "(i % 14) - 4", kind="range", min=-3, max=8),
    "wide": _kind("bigint", "int8", "N", "(i * 7919) % 1000001", kind="range", min=0, max=10**6),
    "open": _kind("integer", "int4", "N", "i % 160 - 40"),
    "day": _kind("date", "date", "D", "date '2019-12-28' + i % 80", **_DAYS),
    "moment": _kind("timestamp without time zone", "timestamp", "D",
                    "timestamp '2020-01-01' + i * interval '4211 seconds'", **_DAYS),
    "price": _kind("numeric(8,2)", "numeric", "N", "(i * 37 % 11000) / 100.0",
                   kind="range", min=0, max=99),
    "rate": _kind("double precision", "float8", "N", "i / 7.0 - 20"),
    "word": _kind("text", "text", "S", _WORDS, values=["red", "it's {blue} %s", "x"]),
    "label": _kind("text", "text", "S", _WORDS, kind="categories"),
    "flag": _kind("boolean", "bool", "B", "i % 3 = 0"),
}  # fmt: skip


@pytest.fixture(scope="module")
def values(make_database):
    """1,200 rows of all kinds, every ninth value NULL."""
    columns = ", ".join(f"{name} {kind.sql}" for name, (kind, *_) in KINDS.items())
    made = ", ".join(f"CASE WHEN i % 9 > 0 THEN {text} END" for *_, text in KINDS.values())
    return make_database(
        f"CREATE TABLE t ({columns}); INSERT INTO t SELECT {made} FROM generate_series(1, 1200) i"
    )


def _codes(connection: psycopg.Connection, name: str) -> tuple[Codec, np.ndarray]:
    """The codec of a column and the codes of its rows, as the reader makes them."""
    kind, config, _ = KINDS[name]
    column = Column(name, 1, kind)
    table = Table(TableName("public", "t"), (column,))
    plan = reader(column, table, ColumnConfig(**config), DELTA)
    wanted = plan.select(sql.Identifier(name))
    parts = sql.SQL(", ").join(expression for expression, _ in wanted)
    query = sql.SQL("SELECT {} FROM t ORDER BY ctid").format(parts)
    cells = zip(*connection.execute(query).fetchall(), strict=True)
    batch = {alias: pa.array(cell) for (_, alias), cell in zip(wanted, cells, strict=True)}
    read = plan.read(batch)[name]
    codec = _codec(column, ColumnConfig(**config))
    recoding = codec.recodings.get(name)
    if isinstance(read, pa.DictionaryArray):
        numbers = read.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return codec, recoding.apply(numbers, read.dictionary)  # type: ignore[union-attr,call-arg]
    return codec, np.asarray(read if recoding is None else recoding.apply(read))


@pytest.mark.parametrize("name", KINDS)
def test_rows_go_where_their_codes_go(values, name):
    """A branch's SQL takes exactly the rows whose codes are the branch's."""
    numbers = generator(7, name)
    with psycopg.connect(values, autocommit=True) as connection:
        codec, codes = _codes(connection, name)
        assert drawable(codec)
        size = codec.domains[name].size
        runs = np.arange(size) * 40 // size  # of neighbours, where there are many cells
        masks = [numbers.random(40)[runs] < share for share in (0.1, 0.5, 0.8)]
        masks += [np.arange(size) < size // 2, np.arange(size) >= size // 2]
        masks += [np.arange(size) == place for place in (0, 1, size - 1)]
        for mask in masks:
            if not mask.any():
                continue
            condition, words = route_of(codec, mask)
            query = sql.SQL("SELECT {} FROM t ORDER BY ctid").format(condition)
            taken = [row[0] for row in connection.execute(query).fetchall()]
            assert taken == mask[codes].tolist(), (condition.as_string(None), words)


CONDITIONS = {name: text.splitlines() for name, text in cases(__file__, "conditions")}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_mean_what_postgresql_says(values, name):
    """Where every code is one value, its weight is PostgreSQL's answer for it."""
    asked = ", ".join(f"(({text}) IS TRUE)::int" for text in CONDITIONS[name])
    with psycopg.connect(values, autocommit=True) as connection:
        codec, codes = _codes(connection, name)
        rows = f"SELECT {asked} FROM t WHERE {_own(name)} ORDER BY ctid"
        answers = np.array(connection.execute(rows.encode()).fetchall(), dtype=np.float64).T
        own = connection.execute(f"SELECT {_own(name)} FROM t ORDER BY ctid".encode()).fetchall()
    codes = codes[np.array(own)[:, 0]]
    for text, held in zip(CONDITIONS[name], answers, strict=True):
        found = weights([text], codec)
        assert found is not None, text
        if name == "price":  # cells of many values: in the mean over the rows
            assert found[codes].mean() == pytest.approx(held.mean(), abs=0.01), text
        else:
            assert found[codes].tolist() == held.tolist(), text


def _own(name: str) -> str:
    """Whether a value is one of those that its cell stands for, not one beyond the last cell."""
    config = KINDS[name][1]
    if "min" in config:
        return f"{name} IS NULL OR {name} BETWEEN '{config['min']}' AND '{config['max']}'"
    return "word IS DISTINCT FROM 'other'" if name == "word" else "true"


def test_what_cannot_be_read_is_not_guessed():
    for text in ("word LIKE 'r%'", "word < 'red'", "lower(word) = 'red'", "small > (SELECT 1)",
                 "small + 1 > 2"):  # fmt: skip
        name = text.partition(" ")[0] if text[0] == "s" else "word"
        kind, config, _ = KINDS[name]
        assert weights([text], _codec(Column(name, 1, kind), ColumnConfig(**config))) is None


@pytest.mark.parametrize("name", ["wide", "price", "moment", "rate", "open"])
def test_a_cell_counts_as_much_as_its_draws_satisfy(name):
    """Against 20,000 values that the codec draws in one cell."""
    kind, config, _ = KINDS[name]
    codec = _codec(Column(name, 1, kind, not_null=True), ColumnConfig(**config))
    lows, highs = codec.cells()  # type: ignore[attr-defined]
    numbers = generator(11, name)
    widest = int(np.argmax(highs - lows)) if name != "rate" else 40
    low, high = int(lows[widest]), int(highs[widest])
    middle = low + (high - low) // 3
    drawn = codec.decode({name: np.full(20_000, widest)}, numbers)
    points = reader(
        Column(name, 1, kind), Table(TableName("public", "t"), ()), ColumnConfig(**config), 0.0
    ).scale.points_of(drawn)  # type: ignore[attr-defined]
    found = cells.shares(codec, [(low, middle)], null=False)
    assert found[widest] == pytest.approx((points < middle).mean(), abs=0.015)
