"""Circuits from files: what was written comes back, what is hostile is refused."""

import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_files import cases

from privbench.domain import Domain
from privbench.errors import ModelError
from privbench.rng import generator
from privbench_lab.circuit import Builder, Circuit, log_likelihood


def mixture():
    builder = Builder({"a": Domain(3, nullable=True), "b": Domain(2)})
    parts = [
        builder.product([builder.leaf("a", [1, 2, 3, 4]), builder.leaf("b", [k, 1])])
        for k in range(3)
    ]
    builder.sum(parts, [1, 2, 3])
    return builder.build()


def test_round_trip():
    circuit = mixture()
    header, arrays = circuit.to_state()
    header = json.loads(json.dumps(header))
    again = Circuit.from_state(header, {name: array.copy() for name, array in arrays.items()})
    assert again.domains == circuit.domains
    for item in fields(circuit):
        if item.name not in ("layers", "domains"):
            assert np.array_equal(getattr(again, item.name), getattr(circuit, item.name))
    rows = circuit.sample(100, generator(1))
    assert np.array_equal(log_likelihood(again, rows), log_likelihood(circuit, rows))


def change(name, index, value):
    """Another value, or values, in an array."""

    def changed(array):
        made = array.copy()
        made[index] = value
        return made

    return array_of(name, changed)


def array_of(name, made):
    return lambda header, arrays: arrays.update({name: made(arrays[name])})


HOSTILE = {
    **{
        fault: change(name, int(place), json.loads(value))
        for fault, text in cases(__file__, "hostile.txt")
        for name, place, value in [text.split()]
    },
    "offsets whose differences overflow": change(
        "offsets", slice(1, 4), [2**62, -(2**63), -(2**62)]
    ),
    "offsets short": array_of("offsets", lambda array: array[:-1]),
    "root misses an attribute": lambda header, arrays: header["domains"].append(
        ["c", Domain(2).to_json()]
    ),
    "array missing": lambda header, arrays: arrays.pop("weights"),
    "array of objects": array_of("weights", lambda array: array.astype(object)),
    "array of another type": array_of("children", lambda array: array.astype(np.float64)),
    "two attributes of one name": lambda header, arrays: header["domains"][1].__setitem__(0, "a"),
    "domain too large": lambda header, arrays: header["domains"][0][1].update(values=2**40),
    "another format": lambda header, arrays: header.update(format=99),
    "header without domains": lambda header, arrays: header.pop("domains"),
    "domains of another shape": lambda header, arrays: header.update(domains=[1, 2]),
}


@pytest.mark.parametrize("fault", HOSTILE, ids=str)
def test_hostile_input_is_refused(fault):
    header, arrays = mixture().to_state()
    header, arrays = json.loads(json.dumps(header)), dict(arrays)
    HOSTILE[fault](header, arrays)
    with pytest.raises(ModelError):
        Circuit.from_state(header, arrays)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_damage_never_gives_anything_but_a_circuit_or_a_refusal(data):
    header, arrays = mixture().to_state()
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name].copy()
    index = data.draw(st.integers(0, len(array) - 1))
    if array.dtype.kind == "f":
        array[index] = data.draw(st.floats(allow_nan=True, allow_infinity=True))
    else:
        info = np.iinfo(array.dtype)
        array[index] = data.draw(st.integers(int(info.min), int(info.max)))
    arrays[name] = array
    try:
        circuit = Circuit.from_state(header, arrays)
    except ModelError:
        return
    assert len(circuit.sample(10, generator(1))["a"]) == 10


def test_a_builder_refuses_what_is_no_circuit():
    builder = Builder({"a": Domain(2)})
    for law in ([-1, 2], [np.nan, 1], [1, 1, 1]):
        with pytest.raises(ValueError, match=r"cells|finite"):
            builder.leaf("a", law)
    with pytest.raises(ValueError, match="before"):
        builder.product([3])
    node = builder.leaf("a", [0, 0])
    for _ in range(5000):
        node = builder.product([node])
    with pytest.raises(ModelError, match="deeper"):
        builder.build()


def test_a_law_without_mass_becomes_uniform_and_nothing_gives_nothing():
    builder = Builder({"a": Domain(4)})
    builder.leaf("a", [0, 0, 0, 0])
    assert builder.build().probabilities.tolist() == [0.25] * 4
    # No attributes, and no rows.
    circuit = Builder({}).build()
    assert circuit.sample(5, generator(1)) == {}
    assert Circuit.from_state(*circuit.to_state()).nodes == 1
    assert mixture().sample(0, generator(1))["a"].shape == (0,)


def test_wide_and_bulk_built_circuits_do_not_underflow():
    generator_ = np.random.default_rng(1)
    domains = {f"c{i}": Domain(50) for i in range(200)}
    builder = Builder(domains)
    leaves = [builder.leaves(name, generator_.random((3, 50))) for name in domains]
    products = builder.products(np.stack(leaves, axis=1))
    builder.sums(products[None, :], np.ones((1, 3)))
    circuit = builder.build()
    rows = circuit.sample(300, generator(2))
    logs = log_likelihood(circuit, rows)
    assert np.isfinite(logs).all()
    assert (logs < -600).all()
