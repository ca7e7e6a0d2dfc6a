"""Attacks by the header of a model that a stranger made.

Each test names the attack, its door, and what stops it. Nothing here gets as far as a server.
"""

from __future__ import annotations

import json
import resource

import model_files
import numpy as np
import pytest

from privbench import pipeline
from privbench.encoding.surrogates import declared, made_semantic, providers
from privbench.errors import ConfigError, ModelError, UsageError
from privbench.limits import TYPE
from privbench.pipeline import Model

EVIL = "x'); COPY (SELECT 1) TO PROGRAM 'touch /tmp/owned'; --"
TYPES = [
    "integer) END AS a FROM t) SELECT 1; COPY (SELECT 'x') TO PROGRAM 'sh'; --",
    "integer END AS a FROM pg_authid", "integer; COMMIT;", "integer/**/", "integer--",
    "integer::text", "integer'x'", 'U&"\\0069nteger"', "integer[1]", "numeric(10,2) NULL",
    "numeric((10))", "numeric(lo_import('x'))", "a.b.c", "interval second second",
    "character varying(1) COLLATE evil", "integer\u00a0", "", '"', '"a""', "$$x$$",
]  # fmt: skip
TYPES_THAT_ARE = [
    "integer", "character varying(20)[]", "timestamp(3) without time zone", "time with time zone",
    "numeric(10,2)", "numeric(3,-2)", '"My Schema"."My ""Type"""', "public.geometry(Point,4326)",
    "interval", "interval day to second(3)", "interval year", "interval(3)", "bit varying(5)[]",
    '"char"', "double precision", "s.mood", "text[][]", "größe", "vector(3)", "pg_catalog.int4",
]  # fmt: skip


def test_types_are_what_can_be_a_name() -> None:
    """Attack: SQL in the place of a type's name. Door: header. What format_type writes is read."""
    assert [text for text in TYPES if TYPE.fullmatch(text)] == []
    assert [text for text in TYPES_THAT_ARE if not TYPE.fullmatch(text)] == []


def column(head, name="tier"):
    """A column of the customers in the schema."""
    (table,) = [t for t in head["schema"]["tables"] if t["name"]["name"] == "customer"]
    return next(item for item in table["columns"] if item["name"] == name)


def tables(head):
    return {item["name"]["name"]: item for item in head["schema"]["tables"]}


def codec(head, table="public.customer", name="tier"):
    return head["tables"][table]["codecs"][name]


def renamed(name, schema):
    """Another name and schema for a table, wherever it stands."""

    def change(parts, head):
        other = {f"public.{name}": f"{schema}.pg_authid"}
        ((old, new),) = other.items()
        text = json.dumps(head["schema"], sort_keys=True)
        old, new = (json.dumps(named(name), sort_keys=True) for name in (old, new))
        head["schema"] = json.loads(text.replace(old, new))
        for kind in ("public", "arrays"):
            head[kind] = sorted(other.get(item, item) for item in head[kind])

    return change


def named(text):
    """The name of an object in a header."""
    schema, name = text.split(".")
    return {"schema": schema, "name": name}


def a_check(expression, *columns):
    """A further CHECK of the customers."""
    check = {"name": "c", "expression": expression, "columns": list(columns)}
    return lambda parts, head: tables(head)["customer"]["checks"].append(check)


def ordered(head):
    """The codec of a column whose values have an order."""
    codecs = (codec for table in head["tables"].values() for codec in table["codecs"].values())
    return next(codec for codec in codecs if codec["codec"] == "ordered")


def fk(head):
    return tables(head)["line"]["foreign_keys"][0]


def cells(head):
    """Name and domain of the first attribute of a circuit."""
    return head["state"]["tables"][0]["attributes"]["domains"][0]


def deep(levels):
    return json.loads("[" * levels + "]" * levels)


NAN = float("nan")
#: The attack, and the change that makes it. All are of the door "header".
ATTACKS = {
    "a public table named pg_catalog.pg_authid": renamed("region", "pg_catalog"),
    "a public table in information_schema": renamed("region", "information_schema"),
    "a public table in pg_toast": renamed("region", "pg_toast"),
    "a private table in pg_temp": renamed("customer", "pg_temp_3"),
    "a domain of pg_catalog": lambda p, h: column(h)["type"].update(domain=named("pg_catalog.d")),
    "a sequence of pg_catalog": lambda p, h: h["schema"]["sequences"].append(
        {"name": named("pg_catalog.s"), "start": 1, "increment": 1, "minimum": 1,
         "maximum": 2, "cycle": False, "owned_by": None}
    ),
    "a column's sequence in pg_toast": lambda p, h: column(h).update(sequence=named("pg_toast.s")),
    "a partition that is pg_class": lambda p, h: tables(h)["customer"]["partitions"].append(
        named("pg_catalog.pg_class")
    ),
    "a materialised view of pg_catalog": lambda p, h: h["schema"]["materialized_views"].append(
        named("pg_catalog.pg_roles")
    ),
    "a schema pg_evil": lambda p, h: h["schema"]["schemas"].append("pg_evil"),
    "a key into pg_authid": lambda p, h: fk(h).update(ref_table=named("pg_catalog.pg_authid")),
    "a key into a table that is not there": lambda p, h: fk(h).update(
        ref_table=named("public.nowhere")
    ),
    "a key of another table": lambda p, h: fk(h).update(table=named("public.region")),
    "a key to a column that is not there": lambda p, h: fk(h).update(
        ref_columns=["nowhere"] * len(fk(h)["ref_columns"])
    ),
    "a key of more columns than it refers to": lambda p, h: fk(h)["columns"].append("number"),
    "a key without columns": lambda p, h: fk(h).update(columns=[], ref_columns=[]),
    "a CHECK on a column that is not there": a_check("true", "nowhere"),
    "a table twice": lambda p, h: h["schema"]["tables"].append(h["schema"]["tables"][0]),
    "a column twice": lambda p, h: tables(h)["customer"]["columns"].append(column(h)),
    "a type that is a statement": lambda p, h: column(h)["type"].update(sql=TYPES[0]),
    "a codec's type that is a statement": lambda p, h: codec(h)["type"].update(sql=TYPES[0]),
    "a codec's type of another family": lambda p, h: codec(h)["type"].update(base="int4"),
    "a codec of another column": lambda p, h: codec(h).update(column="joined"),
    "a codec that the registry lacks": lambda p, h: codec(h).update(codec="os.system"),
    "a name of 300 characters": lambda p, h: model_files.text(h, "tier", "t" * 300),
    "a name of 64 bytes": lambda p, h: model_files.text(h, "tier", "é" * 32),
    "an empty name": lambda p, h: column(h).update(name=""),
    "a name with a zero byte": lambda p, h: model_files.text(h, "tier", "ti\0er"),
    "a name that is half a character": lambda p, h: model_files.text(h, "tier", "\ud800"),
    "a CHECK of 20,000 ORs": a_check(" OR ".join(["tier = 1"] * 20_000), "tier"),
    "a CHECK of 50,000 brackets": a_check("(" * 50_000 + ")" * 50_000),
    "a CHECK of 3,000 signs": a_check("-1 " * 3000),
    "a DEFAULT of a million characters": lambda p, h: column(h).update(default="x" * 10**6),
    "a domain's CHECK without end": lambda p, h: column(h)["type"].update(
        domain_checks=["CASE " * 5000]
    ),
    "types within types": lambda p, h: column(h)["type"].update(parts=deep(10)),
    "a header nested 100,000 deep": lambda p, h: h.update(config={"x": deep(500)}),
    "NaN for a promise": lambda p, h: h["promise"].update(epsilon=NAN),
    "infinity for a promise": lambda p, h: h["promise"].update(epsilon=float("inf")),
    "a negative promise": lambda p, h: h["promise"].update(epsilon=-1.0),
    "a promise of δ = 1": lambda p, h: h["promise"].update(delta=1.0),
    "a promise in words": lambda p, h: h["promise"].update(epsilon="none at all"),
    "a promise to a table that is not there": lambda p, h: h["promise"]["roots"].append("a.b"),
    "a promise that is private by 1": lambda p, h: h["promise"].update(private=1),
    "a server of the far future": lambda p, h: h["schema"].update(server_version=10**400),
    "another version": lambda p, h: h.update(version=99),
    "another format": lambda p, h: h.update(format="other"),
    "no schema": lambda p, h: h.pop("schema"),
    "a state that is a list": lambda p, h: h.update(state=[1]),
    "a column without its codec": lambda p, h: h["tables"]["public.customer"]["codecs"].pop("tier"),
    "an unknown field": lambda p, h: h.update(exec="import os"),
    "an unknown field of a column": lambda p, h: column(h).update(exec=1),
    "a field that is missing": lambda p, h: column(h).pop("not_null"),
    "a list for a table": lambda p, h: h["schema"].update(tables=[[1]]),
    "an unknown way to make a column": lambda p, h: h["tables"]["public.customer"]["making"].update(
        tier="eval"
    ),
    "a config that is none": lambda p, h: h.update(config={"privacy": {"epsilon": "many"}}),
    "a config with a hook": lambda p, h: h["config"].update(hook="os.system"),
    "a synthesizer that is a module": lambda p, h: h.update(synthesizer="os.system"),
    "an event with a negative loss": lambda p, h: h["events"][0].update(amount=-1.0),
    "events without end": lambda p, h: h["events"][0].update(shape=[2**60]),
    "an identity column of an unknown kind": lambda p, h: column(h).update(identity="x"),
    "a position beyond a table": lambda p, h: column(h).update(position=10**9),
    "an extension that is SQL of 100 characters": lambda p, h: h["extensions"].append(EVIL * 2),
    "a public table that the schema lacks": lambda p, h: h["public"].append("public.zzz"),
    "arrays out of order": lambda p, h: h["arrays"].reverse(),
    "an array that has no member": lambda p, h: h["arrays"].append("zzz"),
    "a hash that is none": lambda p, h: h.update(sha256="none"),
    "rows without end": lambda p, h: h["state"]["tables"][0].update(rows=float(2**52)),
    "a size that is none": lambda p, h: h["state"]["tables"][0].update(rows=-5.0),
    "a domain of 2^40 cells": lambda p, h: cells(h)[1].update(values=2**40),
    "a domain beyond its codec": lambda p, h: cells(h).insert(0, "x"),
    "public rows that are not there": lambda p, h: h["state"]["public_rows"].update(
        {"public.region": 10**6}
    ),
    "a state without tables": lambda p, h: h["state"].update(tables=[]),
    "edges of 10^12 steps": lambda p, h: ordered(h).update(unit=True, edges=[0, 10**12]),
    "edges that fall": lambda p, h: ordered(h).update(unit=False, edges=[5, 1]),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_a_header_may_not_say(model, tmp_path, attack):
    """Attack: see the parameter. Door: header. Refused as a damaged model, exit 2, no file made."""
    parts, header = model_files.parts_of(model)
    ATTACKS[attack](parts, header)
    assert json.dumps(header) != json.dumps(model_files.parts_of(model)[1])
    forged = model_files.write(tmp_path / "m", parts, header)
    with pytest.raises(UsageError) as caught:
        pipeline.sample(forged, tmp_path / "out")
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 1000
    assert list((tmp_path / "out").iterdir()) == []


def test_the_honest_model_is_read(model, tmp_path):
    """No attack: the same with nothing changed is a model."""
    forged = model_files.forge(model, tmp_path / "m", lambda parts, head: None)
    assert len(pipeline.sample(forged, tmp_path / "out")) >= 6


METHODS = [
    "seed", "seed_instance", "add_provider", "__class__", "binary", "zip", "tar", "image", "json",
    "pystruct", "enum", "get_providers", "factories", "del_arguments", "random", "no_such",
]  # fmt: skip


@pytest.mark.parametrize("field", ["text", "fill"])
def test_a_provider_that_is_any_method(model, tmp_path, field):
    """Attack: a method of Faker by name. Door: header. Text has providers of a list alone."""
    for provider in METHODS:
        said = {"provider": provider} if field == "text" else {"filler": f"faker:{provider}"}
        parts, head = model_files.parts_of(model)
        codecs = [codec for table in head["tables"].values() for codec in table["codecs"].values()]
        (codec, *_) = [codec for codec in codecs if codec["codec"] == field]
        codec.update(said)
        with pytest.raises(ModelError):
            Model.load(model_files.write(tmp_path / "m", parts, head))
        with pytest.raises(ValueError, match="no such provider"):
            made_semantic(provider, 1, np.random.default_rng(0))


def test_every_provider_of_the_list_makes_text_and_may_stand_in_a_config():
    """No attack: what may be named is there; a config may name what a model may hold."""
    for name in sorted(providers()):
        made = made_semantic(name, 3, np.random.default_rng(0)).to_pylist()
        assert [bool(item) and isinstance(item, str) for item in made] == [True] * 3
    assert declared("city", table="t", column="c").provider == "city"
    with pytest.raises(ConfigError, match="Use one of"):
        declared("zip", table="t", column="c")


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b'{"format": "privbench-model"}', b"[" * 10**6, b'{"a":' * 10**5,
     b'{"format": "privbench-model", "version": 5, "version": 5}', b"\xff\xfe", b'"\\ud800"',
     b'{"format": "privbench-model", "version": NaN}', b'{"a": 1e999}', b"1" * 10**5,
     b'{"format": "privbench-model", "version": true}',
     b'{"format": "privbench-model", "version": 5}'],
)  # fmt: skip
def test_a_header_that_is_no_header(model, tmp_path, data):
    """Attack: odd JSON: nested, doubled, NaN, endless. Door: header. Its form is checked first."""
    with pytest.raises(ModelError):
        Model.load(model_files.write(tmp_path / "m", model_files.parts_of(model)[0], data))


def test_a_message_does_not_repeat_what_is_wrong(model, tmp_path):
    """Attack: a megabyte of escape codes as a field's name. Door: header.

    Messages cut places and hold no values.
    """
    evil = "\x1b[2J" * 10**5

    def change(parts, head):
        column(head)[evil] = evil

    with pytest.raises(ModelError) as caught:
        Model.load(model_files.forge(model, tmp_path / "m", change))
    assert len(str(caught.value)) < 1000
    assert "\x1b" not in str(caught.value)


def test_memory_stays_within_bounds(model, tmp_path):
    """Attack: a model that asks for more rows than there is memory. Door: header. It is refused."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for rows in (2.0**30, 2.0**36, 2.0**52):
        forged = model_files.forge(
            model,
            tmp_path / "m",
            lambda parts, head, rows=rows: [t.update(rows=rows) for t in head["state"]["tables"]],
        )
        with pytest.raises(ModelError, match="no room"):
            pipeline.sample(forged, tmp_path / "out")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024
