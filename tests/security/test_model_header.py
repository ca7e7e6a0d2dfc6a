"""Headers of models that a stranger made; nothing of them gets as far as a server."""

import json
import resource
from contextlib import suppress

import model_files
import numpy as np
import pytest
from bounded import bounded
from sql_files import cases

from privbench import pipeline
from privbench.encoding.keys.placeholders import fill
from privbench.encoding.surrogates import declared, made_semantic, providers
from privbench.errors import ConfigError, ModelError, UsageError
from privbench.limits import TYPE
from privbench.pipeline import Model
from privbench.schema import ColumnType

EVIL = "x'); COPY (SELECT 1) TO PROGRAM 'touch /tmp/owned'; --"
LISTS = {title: text.split("\n") for title, text in cases(__file__, "types.txt")}
NO_TYPES, TYPES = LISTS["no types"], LISTS["types"]


def test_type_pattern_takes_names_alone():
    assert [text for text in ("", *NO_TYPES) if TYPE.fullmatch(text)] == []
    assert [text for text in TYPES if not TYPE.fullmatch(text)] == []


#: Headers that are none; some are a megabyte, of which a naive reader would take hours.
NONE = {
    "a text that does not end": b'"' + b'\\"' * 2**19,
    "many texts": b'["' + b'\\\\","' * 2**17,
    "brackets": b"[" * 2**20,
    "objects": b'{"a":' * 10**5,
    "brackets after a text": b'{"a": "' + b'\\"[' * 2**18 + b'", "b": ' + b"[" * 100,
    "digits": b'{"format": ' + b"9" * 2**20 + b"}",
    "a fraction": b'{"format": 0.' + b"9" * 2**20 + b"}",
    "an exponent": b'{"format": 1e' + b"9" * 2**20 + b"}",
    "nothing": b"",
    "no text": b"\xff\xfe",
    "a number": b"1" * 10**5,
    "an overflow": b'{"a": 1e999}',
    "half a character": b'"\\ud800"',
    **{text.decode(): text for text in (b"{}", b"[]", b"null")},
    **{
        f"the format alone, {rest}": b'{"format": "privbench-model"%b}' % rest.encode()
        for rest in ("", *(f', "version": {x}' for x in ('5, "version": 5', "NaN", "true", "5")))
    },
}


@pytest.mark.parametrize("name", NONE)
def test_load_of_a_header_that_is_none_is_refused_in_time_of_its_length(model, tmp_path, name):
    path = model_files.write(tmp_path / "m", model_files.parts_of(model)[0], NONE[name])

    def load():
        with pytest.raises(ModelError):
            Model.load(path)

    bounded(load)


def at(head, path):
    """What stands in a header: steps are keys, places, and names of what a list holds."""
    for step in path.split("/") if path else ():
        if isinstance(head, dict):
            head = head[step]
        elif step.isdigit():
            head = head[int(step)]
        else:
            names = [i["name"] if isinstance(i["name"], str) else i["name"]["name"] for i in head]
            head = head[names.index(step)]
    return head


def named(text):
    """The name of an object in a header."""
    return dict(zip(("schema", "name"), text.split("."), strict=True))


def a_check(expression, *columns):
    """A further CHECK."""
    return [{"name": "c", "expression": expression, "columns": list(columns)}]


def deep(levels):
    return json.loads("[" * levels + "]" * levels)


def renamed(name, schema):
    """Another name and schema for a table, wherever it stands."""

    def change(head):
        old, new = f"public.{name}", f"{schema}.pg_authid"
        text = json.dumps(head["schema"], sort_keys=True)
        before, after = (json.dumps(named(item), sort_keys=True) for item in (old, new))
        head["schema"] = json.loads(text.replace(before, after))
        for kind in ("public", "arrays"):
            head[kind] = sorted(new if item == old else item for item in head[kind])

    return change


def text(old, new):
    """Another text wherever it stands."""
    return lambda head: model_files.text(head, old, new)


TIER, CODEC = "schema/tables/customer/columns/tier", "tables/public.customer/codecs/tier"
CHECKS = "schema/tables/customer/checks"
#: The codec of a column whose values have an order, and the cells of a table's first attribute.
ORDERED, CELLS = "tables/public.customer/codecs/born", "state/tables/0/attributes/domains/0"


ESCAPES = "\x1b[2J" * 10**5
#: The attack, the place in the header, and what is added there or done.
ATTACKS = {
    **{
        attack: ("" if place == "the header" else place, json.loads(added))
        for attack, text in cases(__file__, "headers.txt")
        for place, added in [text.split("\n")]
    },
    "a public table named pg_catalog.pg_authid": ("", renamed("region", "pg_catalog")),
    "a public table in information_schema": ("", renamed("region", "information_schema")),
    "a public table in pg_toast": ("", renamed("region", "pg_toast")),
    "a private table in pg_temp": ("", renamed("customer", "pg_temp_3")),
    "a table twice": ("schema/tables", lambda found: found.append(found[0])),
    "a column twice": ("schema/tables/customer/columns", lambda found: found.append(found[0])),
    "a type that is a statement": (f"{TIER}/type", {"sql": NO_TYPES[0]}),
    "a codec's type that is a statement": (f"{CODEC}/type", {"sql": NO_TYPES[0]}),
    "a name of 300 characters": ("", text("tier", "t" * 300)),
    "a name of 64 bytes": ("", text("tier", "é" * 32)),
    "a name with a zero byte": ("", text("tier", "ti\0er")),
    "a name that is half a character": ("", text("tier", "\ud800")),
    "a CHECK of 20,000 ORs": (CHECKS, a_check(" OR ".join(["tier = 1"] * 20_000), "tier")),
    "a CHECK of 50,000 brackets": (CHECKS, a_check("(" * 50_000 + ")" * 50_000)),
    "a CHECK of 3,000 signs": (CHECKS, a_check("-1 " * 3000)),
    "a DEFAULT of a million characters": (TIER, {"default": "x" * 10**6}),
    "a domain's CHECK without end": (f"{TIER}/type", {"domain_checks": ["CASE " * 5000]}),
    "types within types": (f"{TIER}/type", {"parts": deep(10)}),
    "a header nested 100,000 deep": ("", {"config": {"x": deep(500)}}),
    "a server of the far future": ("schema", {"server_version": 10**400}),
    "no schema": ("", lambda head: head.pop("schema")),
    "a column without its codec": (
        "tables/public.customer/codecs", lambda codecs: codecs.pop("tier")),
    "a field that is missing": (TIER, lambda column: column.pop("not_null")),
    "events without end": ("events/0", {"shape": [2**60]}),
    "a position beyond a table": (TIER, {"position": 10**9}),
    "an extension that is SQL of 100 characters": ("extensions", [EVIL * 2]),
    "arrays out of order": ("arrays", lambda arrays: arrays.reverse()),
    "public rows that are not there": ("state/public_rows", {"public.region": 10**6}),
    "edges of 10^12 steps": (ORDERED, {"unit": True, "edges": [0, 10**12]}),
    "a field named by escape codes": (TIER, {ESCAPES: ESCAPES}),
    **{
        f"{rows:.0e} rows": (
            "state/tables", lambda tables, rows=rows: [t.update(rows=rows) for t in tables])
        for rows in (2.0**30, 2.0**36, 2.0**52)
    },
}  # fmt: skip


#: Attacks on a model of attributes, which synthesizers of other packages have.
OF_ATTRIBUTES = {
    "a domain of 2^40 cells": (f"{CELLS}/1", {"values": 2**40}),
    "a domain beyond its codec": (CELLS, lambda domain: domain.insert(0, "x")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_sample_of_what_a_header_may_not_say_is_refused(model, tmp_path, attack):
    """Exit 2, in a line without the header's own values, and no file is made."""
    parts, header = model_files.parts_of(model)
    path, change = {**ATTACKS, **OF_ATTRIBUTES}[attack]
    place = at(header, path)
    added = {dict: "update", list: "extend"}.get(type(change))
    if added:
        getattr(place, added)(change)
    else:
        change(place)
    assert json.dumps(header) != json.dumps(model_files.parts_of(model)[1])
    forged = model_files.write(tmp_path / "m", parts, header)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UsageError) as caught:
        pipeline.sample(forged, tmp_path / "out")
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 1000
    assert "\x1b" not in str(caught.value)
    assert list((tmp_path / "out").iterdir()) == []
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert "rows" not in attack or grown < 300 * 1024


FALSE = [{"kind": "values", "columns": ["tier"], "source": "name", "text": "", "values": ["x"]}]


@pytest.mark.parametrize("place", [CHECKS.replace("checks", "rules"), f"{TIER}/type/rules"])
def test_load_of_rules_that_nothing_states_takes_those_that_are_stated(model, tmp_path, place):
    """Those of the CHECKs count."""
    forged = model_files.forge(
        model, tmp_path / "m", lambda parts, head: at(head, place).extend(FALSE)
    )
    assert Model.load(forged).schema == Model.load(model).schema


@pytest.mark.parametrize("field", ["text", "fill"])
def test_load_of_a_provider_that_is_any_method_is_refused(model, tmp_path, field):
    for provider in LISTS["methods of Faker that make no text"]:
        said = {"provider": provider}
        if field == "fill":
            said = {"codec": "fill", "measured": True, "filler": f"faker:{provider}"}
        parts, head = model_files.parts_of(model)
        codecs = [codec for table in head["tables"].values() for codec in table["codecs"].values()]
        (codec, *_) = [codec for codec in codecs if codec["codec"] == "text"]
        codec.update(said)
        with pytest.raises(ModelError, match=r"no such provider|cannot be used"):
            Model.load(model_files.write(tmp_path / "m", parts, head))
        with pytest.raises(ValueError, match="no such provider"):
            made_semantic(provider, 1, np.random.default_rng(0))


@pytest.mark.parametrize("template", ["#999999999h", "x" * 100_000])
def test_templates_of_a_stranger_make_short_values(template):
    column = ColumnType("jsonb", "jsonb", category="U")
    with suppress(ValueError):
        made = fill(f"templates:{json.dumps([template])}", column, 2, np.random.default_rng(0))
        assert max(map(len, made.to_pylist())) < 100


def test_made_semantic_of_every_provider_makes_text():
    for name in sorted(providers()):
        made = made_semantic(name, 3, np.random.default_rng(0)).to_pylist()
        assert [bool(item) and isinstance(item, str) for item in made] == [True] * 3
    assert declared("city", table="t", column="c").provider == "city"
    with pytest.raises(ConfigError, match="Use one of"):
        declared("zip", table="t", column="c")
