"""Whatever comes of a changed model is an error that names it, or a sound clone."""

import copy
import random
import resource
import zipfile
from functools import reduce
from operator import getitem

import market
import model_files
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privbench import pipeline
from privbench.errors import DatabaseError, ModelError, UsageError
from privbench.pipeline import Model, archive
from privbench.pipeline.decode import decode

#: Cases of each kind, and where they begin: some by default, thousands with --all.
CASES = [
    pytest.param(12, 1, id="some"),
    *(pytest.param(500, 100 + n, marks=pytest.mark.slow, id=f"many {n}") for n in range(4)),
]
#: MiB that a changed model of 60 kB may take at most, and rows that a case is decoded for.
MOST_MIB, MOST_ROWS = 600, 20_000

ODD = [
    None, True, False, 0, 1, -1, 2, 255, 256, 2**31, -(2**31), 2**63, -(2**63) - 1, 2**64, 10**30,
    0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, float("nan"), float("inf"), "", "x", "\0", "\ud800",
    "public.region", "pg_catalog", "'; DROP TABLE region; --", "x" * 64, "a" * 70_000, [], {},
    [[]], [1], ["x"], {"x": 1}, [None] * 100, {"schema": "pg_catalog", "name": "pg_authid"},
    "integer", "ordered", "list", "fill", "text", "faker:zip", "made", "null", "default", "tier",
]  # fmt: skip


def places(value, path=()):
    """Every place within a JSON value."""
    kinds = {dict: dict.items, list: enumerate}
    for name, item in kinds[type(value)](value) if type(value) in kinds else ():
        yield (*path, name)
        yield from places(item, (*path, name))


def near(value, rng):
    """Something of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return value + rng.choice([-1, 1, 10, -value, 1000, 10**6, 10**9, 10**18])
        case float():
            return value * rng.choice([-1.0, 0.0, 1e3, 1e9, 1e30])
        case str():
            other = [value + "x", value[:-1], value.upper(), value[::-1], value + "\x1fpart"]
            return rng.choice(other)
        case list():
            return rng.choice([value[::-1], value[1:], value * 2, value[:1]])
        case dict():
            return dict(list(value.items())[1:])
    return "x"


def odd_header(path, target, rng):
    """One to three places of the header are odd, gone, doubled or another place's."""
    parts, found = model_files.parts_of(path)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        every = list(places(found))
        # Tables and states have few fields and many values: choose by the first steps too.
        top = rng.choice(sorted({place[0] for place in every}))
        *steps, last = rng.choice([place for place in every if place[0] == top])
        holder, kind = reduce(getitem, steps, found), rng.random()
        if kind < 0.6:
            holder[last] = near(holder[last], rng) if rng.random() < 0.5 else rng.choice(ODD)
        elif kind < 0.75:
            del holder[last]
        elif kind < 0.85 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[last]))
        else:
            holder[last] = copy.deepcopy(reduce(getitem, rng.choice(every), found))
    model_files.write(target, parts, found)


def spoilt(data, rng):
    """Bytes with some flipped, cut, doubled or moved."""
    made = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if not made:
            break
        at, kind = rng.randrange(len(made)), rng.random()
        if kind < 0.5:
            made[at] ^= 1 << rng.randrange(8)
        elif kind < 0.7:
            other = [b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f" + b"\0" * 4]
            made[at : at + 8] = rng.choice(other)
        elif kind < 0.85:
            del made[at : at + rng.randrange(64)]
        else:
            made[at:at] = made[at : at + rng.randrange(64)]
    return bytes(made)


def spoilt_member(path, target, rng):
    """Other bytes of a member; of arrays it is mostly one number that is changed."""
    parts, header = model_files.parts_of(path)
    name = rng.choice(sorted(parts))
    if name.startswith("arrays/") and rng.random() < 0.7:
        array = archive.read_array(parts[name]).copy().ravel()
        if array.size:
            other = rng.choice([0, 1, 255, np.iinfo(np.int32).max, -1, 10**9])
            array[rng.randrange(array.size)] = np.array(other).astype(array.dtype)
        parts[name] = archive.array_bytes(array)
    else:
        parts[name] = spoilt(parts[name], rng)
    model_files.write(target, parts, header)


def spoilt_archive(path, target, rng):
    """Other bytes anywhere; no hash fits, so what is read is the same model."""
    target.write_bytes(spoilt(path.read_bytes(), rng))


def judged(path):
    """Read, sample and decode; whether it is a model still. Any other error fails."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        for table in decode(Model.load(path), scale=0.5, seed=1):
            rows = 0
            for batch in table.batches():
                rows += batch.num_rows
                assert len(batch.columns) == len(table.columns)
                if rows > MOST_ROWS:
                    break
    except UsageError:
        return False
    finally:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < MOST_MIB * 1024
    return True


@pytest.mark.parametrize(("cases", "seed"), CASES)
@pytest.mark.parametrize("synthesizer", ["independent", "privbench"])
@pytest.mark.parametrize("spoil", [odd_header, spoilt_member, spoilt_archive])
def test_decode_of_changed_models_is_sound(honest, tmp_path, spoil, synthesizer, cases, seed):
    rng, path, sound = random.Random(seed), honest[synthesizer], 0
    for _ in range(cases):
        case = rng.getrandbits(48)
        try:
            spoil(path, tmp_path / "m", random.Random(case))
        except UnicodeEncodeError:
            continue
        try:
            kept = judged(tmp_path / "m")
        except BaseException as error:
            error.add_note(f"case {case}")
            raise
        sound += kept
        if kept and spoil is spoilt_archive:
            assert model_files.members(tmp_path / "m") == model_files.members(path)
    assert cases < 100 or spoil is not odd_header or 0 < sound < cases


@pytest.mark.parametrize("cases", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_read_table_of_spoilt_bytes_is_text_or_an_error(honest, cases):
    rng = random.Random(cases)
    data = model_files.members(honest["independent"])["public/0.csv"]
    for _ in range(cases):
        try:
            table = archive.read_table(spoilt(data, rng), ["code", "title"])
        except (ModelError, ValueError):
            continue
        assert len(str(table.to_pylist())) < 10_000


@given(st.binary(max_size=400))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_load_of_any_bytes_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    assert not judged(path)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("header.json", data)
    assert not judged(path)


#: Everything of a server that a load may not touch: roles, databases, settings, catalogs.
CLUSTER = (
    "SELECT rolname, rolsuper, rolcreaterole FROM pg_roles ORDER BY 1",
    "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp' ORDER BY 1",
    "SELECT count(*), max(oid) FROM pg_proc",
    "SELECT count(*) FROM pg_largeobject_metadata",
    "SELECT setdatabase, setconfig FROM pg_db_role_setting ORDER BY 1",
)


@pytest.mark.parametrize(
    ("synthesizer", "cases"),
    [("independent", 4), pytest.param("privbench", 100, marks=pytest.mark.slow)],
)
def test_load_of_changed_models_is_contained(honest, make_database, tmp_path, synthesizer, cases):
    """Odd values that pass the header."""
    path, target, rng, loaded = tmp_path / "m", make_database(), random.Random(1), 0
    before = [market.ask(target, query) for query in CLUSTER]
    for _ in range(cases):
        for _ in range(60):
            try:
                odd_header(honest[synthesizer], path, rng)
            except UnicodeEncodeError:
                continue
            if judged(path):
                break
        try:
            pipeline.load(path, target, replace=True, seed=1)
            loaded += 1
        except (UsageError, DatabaseError):
            continue
    assert [market.ask(target, query) for query in CLUSTER] == before
    assert loaded
