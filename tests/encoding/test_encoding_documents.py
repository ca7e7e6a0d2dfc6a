"""Documents by their paths: no row makes a cast fail, and documents come back."""

import json
from dataclasses import replace

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from bounded import bounded
from columns import codes_of, release, stored
from psycopg import sql
from sql_files import sql_of

from privbench.config import Config
from privbench.encoding.documents import (
    DocumentReader,
    PathReader,
    path_piece,
    released_paths,
)
from privbench.encoding.registry import codec_from_json, reader
from privbench.errors import ConfigError, ModelError
from privbench.postgres.introspect import introspect
from privbench.rng import generator
from privbench.rules.documents import named_paths
from privbench.schema import Column, ColumnType

PATHS = {
    "type": "text",
    '"say \\"a\'b\\"".é': "text",
    "__proto__.a.b.c": "text",
    "ok": "boolean",
    "n": "bigint",
    "amount": "numeric",
    "day": "date",
    "at": "timestamptz",
    "n::int8": "text",
}
#: Of all but the first two documents no path has a scalar of its type.
ROWS = sql_of(__file__, "documents.txt").splitlines()
#: A `json` that no function of PostgreSQL can decode.
BROKEN = ['{"type": "\\u0000"}', '{"type": "\\ud800"}']


@pytest.fixture(scope="module")
def connection(server, make_database):
    with psycopg.connect(make_database(), autocommit=True) as connection:
        connection.execute("CREATE TABLE jsonbs (d jsonb)")
        connection.execute("CREATE TABLE jsons (d json NOT NULL)")
        yield connection


def plan_of(connection, table):
    table = introspect(connection).table(table)
    config = Config.model_validate({"tables": {"t": {"columns": {"d": {"paths": PATHS}}}}})
    return reader(table.column("d"), table, config.tables["t"].columns["d"], 1e-9)


@pytest.mark.parametrize("base", ["json", "jsonb"])
def test_any_document_is_read_and_comes_back_with_its_scalars(connection, base):
    plan = plan_of(connection, f"{base}s")
    rows = [*ROWS, *(BROKEN if base == "json" else [None])]
    selected = plan.select(sql.SQL("x::{}").format(sql.SQL(base)))
    found = connection.execute(
        sql.SQL("SELECT {} FROM unnest({}::text[]) AS x").format(
            sql.SQL(", ").join(text for text, _ in selected), sql.Literal(rows)
        )
    ).fetchall()
    given = zip(selected, zip(*found, strict=True), strict=True)
    # Numbers and times arrive as whole or float numbers, texts as texts.
    batch = {alias: pa.array(list(values)) for (_, alias), values in given}
    batch = {k: v.cast(pa.string()) if pa.types.is_null(v.type) else v for k, v in batch.items()}
    rng = generator(0, base)
    texts = dict.fromkeys(
        (n for n in plan.attributes if "\x1f::" not in n), ("a", "b", "deep", "x")
    )
    codec = plan.finish(release(plan, rng, **texts))
    stored(codec)
    made = codec.decode(codes_of(codec, plan.collect([plan.read(batch)])), rng)
    connection.execute("SELECT v::jsonb FROM unnest(%s::text[]) AS v", [made.to_pylist()])
    first, second, *others = [json.loads(text) if text else None for text in made.to_pylist()]
    assert (first["type"], first["ok"]) == ("a", True)
    assert {*first} == {"type", "ok", "n", "amount", "day", "at"}
    assert (type(first["n"]), type(first["day"])) == (int, str)
    assert second == {
        'say "a\'b"': {"é": "x"}, "__proto__": {"a": {"b": {"c": "deep"}}}, "type": "b"
    }  # fmt: skip
    assert [item or {} for item in others] == [{}] * len(others)
    assert (others[-1] is None) == (base == "jsonb")


@pytest.mark.parametrize("parts", [("[", "", "]"), ('{"a":', "1", "}")])
def test_the_deepest_document_that_can_be_stored_is_read(connection, parts):
    before, within, after = parts
    with connection.transaction(force_rollback=True):
        low, high = 100, 100_000
        while high - low > 1:
            depth = (low + high) // 2
            made = before * depth + within + after * depth
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO jsons VALUES (%s)", [made])
                low = depth
            except psycopg.errors.StatementTooComplex:
                high = depth
        texts = [text for text, _ in plan_of(connection, "jsons").select(sql.Identifier("d"))]
        query = sql.SQL("COPY (SELECT {} FROM public.jsons) TO STDOUT")
        with connection.cursor().copy(query.format(sql.SQL(", ").join(texts))) as rows:
            assert {field for row in rows.rows() for field in row} <= {None, "0" * len(PATHS)}


def test_a_document_that_cannot_be_printed_is_read(connection):
    document = """('{"type": "a", "m": [' || repeat('1e131071,', 200000) || '1]}')::jsonb"""
    known = plan_of(connection, "jsonbs")
    for plan in (known, PathReader(known.table, known.column)):
        texts = sql.SQL(", ").join(text for text, _ in plan.select(sql.Identifier("d")))
        with connection.transaction(force_rollback=True):
            connection.execute(f"INSERT INTO jsonbs SELECT {document}")
            (found,) = connection.execute(sql.SQL("SELECT {} FROM jsonbs").format(texts)).fetchall()
        assert all(text is None or len(text) < 2**20 for text in found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": {"b": 1}, "c": ["x", null, true], "d": null}', "a.b int8|c.[0] text|c.[2] bool"),
        ('[{"a": 1.5}, {"a": "2024-02-29"}]', "[0].a numeric|[1].a date"),
        ('{"user_812": 1, "12": 2, "a@b": 3, "[0]": 4, "b\\\\": 5, "": 6}', ""),
        (f'{{"{"k" * 65}": 1, "{"k" * 64}": 1}}', f"{'k' * 64} int8"),
        ('{"a": {"b": {"c": {"d": 1, "e": {"f": 2}}}}}', "a.b.c.d int8"),
        ('{"a": 1, "a": "x", "n": ' + "9" * 5000 + ', "m": 1e400}', "a text|n numeric|m numeric"),
        ('{"\\ud800": 1, "a\\u0000": 2, "b": "\\u0000"}', "b text"),
        ("{" + ", ".join(f'"{"k" * i}": 1' for i in range(65)) + "}", ""),
        ("[" * 10**5 + "]" * 10**5, ""),
        ('{"a":' * 10**5 + "1" + "}" * 10**5, ""),
        *((text, "") for text in ("7", '"a"', "null", "true", "[]", "{}")),
        (None, ""),
    ],
)
def test_paths_of_any_document_are_read_but_for_keys_that_are_data(text, found):
    piece = path_piece(pa.array([text], pa.string()))
    short = {"bigint": "int8", "boolean": "bool"}
    words = [word.split("\x1f") for word in piece.words.to_pylist()]
    assert [f"{path} {short.get(kind, kind)}" for path, kind in words] == found.split("|") * bool(
        found
    )
    assert (piece.sizes.tolist(), piece.firsts.tolist()) == ([len(words)], [-(text is None)])


@pytest.mark.parametrize(
    ("votes", "known", "kept"),
    [
        ("a bigint 9|a numeric 8", {}, "a numeric"),
        ("a date 9|a text 8|b timestamp 7|b date 6", {}, "a text|b timestamp"),
        ("a text 9|a.b text 8|c.b text 8|c.[0] text 7", {}, "a text|c.b text"),
        ("a text 9|b bigint 8", {"a.b": "date", "b": "text"}, "a.b date|b text"),
        ("a text 100|b text 4", {}, "a text"),
        ("", {}, ""),
    ],
)
def test_released_paths_agree_with_each_other(votes, known, kept):
    listed = [item.split() for item in votes.split("|") if item]
    found = released_paths({f"{p}\x1f{t}": int(n) for p, t, n in listed}, known)
    assert "|".join(f"{path} {type_}" for path, type_ in found.items()) == kept


@pytest.mark.parametrize(
    ("base", "made"), [("jsonb", '{"c": "x\\"y"}'), ("hstore", '"c"=>"x\\"y"')]
)
def test_values_are_in_the_documents_whose_sampled_paths_have_them(base, made):
    paths = {"c": "text", "t.[0]": "text", "t.[1]": "text"}
    paths = paths if base == "jsonb" else {"c": "text", "d": "text"}
    type_ = ColumnType(base, base, "b", "U")
    plan = DocumentReader("public.t", Column("d", 1, type_), tuple(paths.items()), 64)
    shapes = ("1" + "0" * (len(paths) - 1), "011"[: len(paths)])
    labels = {name: ('x"y',) for name in plan.attributes} | {"d": shapes}
    codec = plan.finish(labels)
    # The first has its path and the second lacks them; what the others have is measured.
    codes = {
        n: np.array([0, 1, 0, 2, codec.domains["d"].null_code]) * (n == "d") for n in codec.domains
    }
    first, second, third, *_, last = codec.decode(codes, generator(0, "d")).to_pylist()
    assert (first, third, last) == (made, made, None)
    assert "c" not in second
    assert second.count("x") == len(paths) - 1
    if base == "jsonb":
        assert json.loads(second) == {"t": ['x"y'] * 2}


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["a", "a.b"], "exclude each other"),
        (["a", '"a"'], "exclude each other"),
        (["a.b.c.d.e"], "at most 4 keys"),
        (["a..b"], "at most 4 keys"),
        (["items.0"], "a place in an array"),
        (["x" * 65], "longer than 64"),
        (['"' + '\\"' * 2**14], "longer than 3084"),
        (['"\\u001f"'], "longer than 64"),
        ([f"p{i}" for i in range(65)], "more than 64"),
        ({"a": "xml"}, "Input should be"),
    ],
)
def test_paths_that_cannot_be_are_refused(paths, said):
    with pytest.raises(ConfigError, match=said):
        Config.loads(f"[tables.t.columns.d]\npaths = {toml(paths)}")


def toml(paths):
    if isinstance(paths, list):
        return json.dumps(paths)
    return "{" + ", ".join(f'"{key}" = "{value}"' for key, value in paths.items()) + "}"


def test_a_model_with_other_parts_is_refused(connection):
    plan = plan_of(connection, "jsonbs")
    data = json.loads(json.dumps(plan.finish(release(plan, generator(0))).to_json()))
    for wrong in (
        {"paths": [*data["paths"][1:], "another"]},
        {"paths": ["a", "a.b", *data["paths"][2:]]},
        {"paths": ['"' + '\\"' * 2**20, *data["paths"][1:]]},
        {"templates": ['"' + '\\"' * 2**15]},
        {"templates": ["{}"] * 65},
        {"parts": data["parts"][1:]},
        {"parts": [data["parts"][-1], *data["parts"][1:]]},
        {"parts": [{**data["parts"][0], "codec": "document"}, *data["parts"][1:]]},
    ):
        with pytest.raises(ModelError):
            codec_from_json(data | wrong)


def test_a_template_is_read_in_one_pass(connection):
    """Attack: a text that does not end, which a naive pattern tries from each of its quotes."""
    plan = plan_of(connection, "jsonbs")
    codec = plan.finish(release(plan, generator(0)))
    texts = ('"' + '\\"' * (2**15 - 1), '"\\' * 2**15)
    hostile = replace(codec, templates=texts)
    codes = {name: np.zeros(2, domain.dtype) for name, domain in codec.domains.items()}
    bounded(lambda: hostile.decode(codes, generator(0)), seconds=5)


def test_the_schema_names_paths(make_database):
    with psycopg.connect(make_database(sql_of(__file__, "named_paths"))) as connection:
        found = named_paths(introspect(connection).table("t"))
    assert found == {
        "d": {
            "total": "numeric", "user.the id": "bigint", "user.name": "text",
            "is": "boolean", '"x.y".z': "text",
        },
        "e": {"kind": "text"},
    }  # fmt: skip
