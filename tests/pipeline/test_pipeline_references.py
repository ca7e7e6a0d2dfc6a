"""References of the config: keys in every respect, but without a constraint, whatever rows do."""

import re
from dataclasses import replace

import market
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fits import private_rows
from psycopg import sql
from sql_files import cases, database_of, sql_of
from stability import remove_unit

from privbench import pipeline
from privbench.config import Config
from privbench.errors import ConfigError, SchemaError
from privbench.pipeline import Model
from privbench.pipeline.losses import finer_units
from privbench.pipeline.prepare import prepare
from privbench.postgres.keys import DANGLING, key_expressions, match
from privbench.privacy import UnitDefinition
from privbench.privacy.units import NONE
from privbench.publish.accounts import certificate_of
from privbench.schema import TableName

TOML = sql_of(__file__, "references.toml")

#: Rows with NULL, values that mean none, missing targets, duplicate targets, keys of other types.
source = database_of(sql_of(__file__, "references"))


def configured(folder, **given) -> Config:
    given = {"epsilon": 200.0, "delta": 1e-6, **given}
    return market.config(folder, TOML, "independent", **given)


#: Units by a condition on their roots, with the other rows that go with them.
UNITS = {
    ("person", "id = 7"): [
        "DELETE FROM note WHERE of_type = 'Person' AND of_id = 7 OR of_type = 'Order' AND of_id IN"
        " (SELECT id FROM \"order\" WHERE person = 7) OR of_type = 'Line' AND of_id IN (SELECT id"
        ' FROM line WHERE "order" IN (SELECT id FROM "order" WHERE person = 7))',
        'DELETE FROM line WHERE "order" IN (SELECT id FROM "order" WHERE person = 7)',
        'DELETE FROM "order" WHERE person = 7',
    ],
    ("person", "id = 3 AND plan <> 'again'"): [],
    ("product", "id IN (0, 30)"): [],
    ("product", "id = 5"): [],
    ("order", "id = 202"): ['DELETE FROM line WHERE "order" = 202'],
}


@pytest.fixture(scope="module")
def neighbours(source, make_database):
    """For every unit the key columns of its database and of that without it, made by SQL."""
    found = []
    for (table, which), more in UNITS.items():
        dsn = make_database(sql_of(__file__, "references"))
        market.execute(dsn, "SET session_replication_role = replica", *more)
        market.execute(dsn, f'DELETE FROM "{table}" WHERE {which}')
        found.append((table, which, dsn))
    return found


def moved(source, neighbours):
    """Edges of rows that stay that are another after a unit has gone than the claims suppose."""
    before, found = private_rows(source, configured(None)), set()
    for table, which, dsn in neighbours:
        left, after = before, private_rows(dsn, configured(None))
        roots = market.ask(source, f'SELECT {which} FROM "{table}"')
        for row in reversed(np.flatnonzero(np.array(roots)[:, 0])):
            left = remove_unit(left, f"public.{table}", int(row))
        keys = [key for spec in before.spec.tables.values() for key in spec.keys]
        same = [np.array_equal(left._parents(key), after._parents(key)) for key in keys]
        found |= {(which, key.name) for key, held in zip(keys, same, strict=True) if not held}
    return found


def test_unit_that_goes_moves_no_edges_but_those_into_it(source, neighbours):
    """The neighbour is made in the server, by deleting rows; of three rows of a key one goes."""
    assert moved(source, neighbours) == set()


def first_of_several(child, parent):
    found = match(child, parent)
    first = pc.index_in(pa.chunked_array(child[0]), value_set=pa.chunked_array(parent[0]))
    return np.where(found == DANGLING, first.fill_null(DANGLING).to_numpy(), found)


def null_without_parent(child, parent):
    found = match(child, parent)
    return np.where(found == DANGLING, NONE, found)


def replaced_key(name, column, otherwise):
    """Expressions of the keys, but by one key those that follow from which targets there are."""

    def mutant(schema, key):
        ours, theirs = key_expressions(schema, key)
        if key.name == name:
            ours = [sql.SQL(f"CASE WHEN {otherwise} THEN {column} END")]
        return ours, theirs

    return mutant


def rows_of_targets(plan, table, parents, raw):
    """The targets' own rows, where those of the root above them are asked for."""
    edges = np.array([parents[table][key.name] for key in plan.tables[table].owners])
    return np.minimum(edges.max(axis=0), raw["public.person"].rows - 1)


OWN_OF_NOTES = "of_id by of_type: " + "; ".join(
    f"note_of_id_{name}_reference→public.{name.lower()}" for name in ("Line", "Order", "Person")
)
NONE_UNLESS_THERE = replaced_key(
    "line_gift_4b107001_reference",
    "gift",
    "gift > 0 OR EXISTS (SELECT FROM public.product p WHERE p.id = gift)",
)
ANY_TYPE = replaced_key(
    "line_about_id_Person_reference",
    "about_id",
    "about_type = 'Person' OR NOT EXISTS (SELECT FROM public.product p WHERE p.id = about_id)",
)


def test_other_columns_of_types_make_other_units(source):
    """The values of types and the tables are the same, but rows have other owners."""
    schema = pipeline.look(source, configured(None)).schema
    note = schema.table(TableName("public", "note"))
    keys = (replace(key, when=("mark", key.when[1])) for key in note.foreign_keys)
    others = [replace(note, foreign_keys=tuple(keys)) if t is note else t for t in schema]
    schemas = schema, replace(schema, tables=tuple(others))
    first, second = (UnitDefinition.of(prepare(s, configured(None)).spec) for s in schemas)
    assert first.parts(second) is None


def test_finer_units_are_neither_elements_nor_owners_by_types(source):
    """Freed, an order without a person and its note would be one unit, in place of two."""
    plan = pipeline.check(configured(None), source).plan
    assert any(table.elements for table in plan.spec.tables.values())
    sizes = (dict.fromkeys(plan.spec.tables, size) for size in (100.0, 8100.0, 400.0))
    assert re.findall(r"\[tables.*", finer_units(plan, *sizes)) == ['[tables."public.note"]']


@pytest.mark.parametrize(
    ("name", "mutant", "where"),
    [
        ("match", first_of_several, ("id = 3 AND plan <> 'again'", "order_person_reference")),
        ("match", null_without_parent, ("id = 5", "line_about_id_Product_reference")),
        ("key_expressions", NONE_UNLESS_THERE, ("id IN (0, 30)", "line_gift_4b107001_reference")),
        ("_root_rows", rows_of_targets, ("id = 7", OWN_OF_NOTES)),
        ("key_expressions", ANY_TYPE, ("id = 5", "line_about_id_Person_reference")),
    ],
)
def test_mutants_of_matching_move_more(source, neighbours, monkeypatch, name, mutant, where):
    """A key of several rows, one of none, a value that means none, and one of another type."""
    monkeypatch.setattr(f"privbench.pipeline.extract.{name}", mutant)
    assert where in moved(source, [item for item in neighbours if item[1] == where[0]])


def test_clone_has_the_references_of_its_source_and_no_constraint_of_them(
    source, make_database, tmp_path
):
    """Rows without an owner stay such rows: no person of the clone has the orders of nobody."""
    path, some, target = tmp_path / "m.privbench", make_database(), make_database()
    market.execute(some, sql_of(__file__, "references").partition("-- Owners")[0])
    market.execute(some, sql_of(__file__, "references_more"))
    config = configured(tmp_path / "ledger", epsilon=1000.0)
    line = config.tables["public.line"]
    line = line.model_copy(update={"references": line.references[1:]})
    config = config.model_copy(update={"tables": {**config.tables, "public.line": line}})
    pipeline.fit(some, config, path)
    assert pipeline.load(path, target, seed=1).loose == ()
    for most, rows in cases(__file__, "references_counts.txt"):
        true, made = (market.one(dsn, f"SELECT count(*) FROM {rows}") for dsn in (some, target))
        assert 1 / float(most) <= made / true <= float(most), (rows, true, made)
    left = "SELECT conname, convalidated FROM pg_constraint WHERE contype = 'f'"
    assert market.ask(target, left) == [("line_order_fkey", False)]
    model = Model.load(path)
    # A row of a line or order without a person owns no note.
    assert certificate_of(model, path, "15").owned_by["public.note"] == "public.person"
    keys = {key.name: key for table in model.schema for key in table.foreign_keys}
    assert not any(key.validated for key in keys.values())
    assert {name for name, key in keys.items() if not key.declared} == {"line_order_fkey"}
    assert keys["line_gift_4b107001_reference"].none == ("0", "-1")


@pytest.mark.parametrize(("said", "toml"), cases(__file__, "references_refused.txt"))
def test_check_refuses_references_that_are_none(source, said, toml):
    head, rest = TOML.split('[[tables."public.order".references]]\n')
    rest = rest.partition("[tables")[2]
    text = f'{head}[[tables."public.order".references]]\n{toml}\n[tables{rest}'
    with pytest.raises((ConfigError, SchemaError), match=said):
        pipeline.check(Config.loads(text), source)


def test_proposed_references_are_sections_of_the_config(make_database):
    """They are TOML that parses and is used, whatever the names; a section settles a table."""
    dsn = make_database(
        'CREATE TABLE "Customer" (id integer PRIMARY KEY, email text);'
        ' CREATE TABLE "a.b""c" (id integer PRIMARY KEY, customer_id integer NOT NULL,'
        " owner_type text, owner_id integer, of_id integer,"
        " of_type text CHECK (of_type IN ('customers', 'nobody')))"
    )
    config = pipeline.inspect(dsn).config
    again = Config.loads(config.dumps())
    assert again == config
    (first, second, third) = again.tables['public."a.b""c"'].references
    assert (first.columns, first.to.table) == (["customer_id"], 'public."Customer"')
    assert [*second.types] == ["Customer"]
    assert [*third.types] == ["customers"]
    assert again.tables['public."a.b""c"'].own == ["customer_id"]
    assert pipeline.check(again, dsn).undecided == ()
    settled = Config.loads('[tables.\'public."a.b""c"\']\nreferences = []')
    found = pipeline.inspect(dsn, base=settled).config
    assert found.tables['public."a.b""c"'].references == []


def test_arrays_of_keys_lead_to_rows_of_the_clone(make_database, tmp_path):
    """Also where a unit is a row, and to copied rows of a public table by their own keys."""
    some, target = make_database(sql_of(__file__, "references_arrays")), make_database()
    config = pipeline.inspect(some).config
    found = [(item.columns, item.each) for item in config.tables["public.wine"].references]
    # Codes that can be read are values of the row that has them, as in a column of one.
    assert found == [(["region_ids"], True)]
    toml = sql_of(__file__, "references_arrays.toml")
    config = market.config(tmp_path / "ledger", toml, "independent")
    path = tmp_path / "m.privbench"
    pipeline.fit(some, config, path)
    pipeline.load(path, target, seed=1)
    assert market.ask(target, "SELECT code FROM grape") == market.ask(
        some, "SELECT code FROM grape"
    )
    for column, key in (("region_ids", "region r ON r.id"), ("grape_codes", "grape r ON r.code")):
        lead = f"SELECT count(*) FROM wine, unnest({column}) e JOIN {key} = e"
        every = f"SELECT count(*) FROM wine, unnest({column}) e"
        true, made = market.one(some, every), market.one(target, every)
        assert market.one(target, lead) == made
        assert 0.8 < made / true < 1.25
    secret = "SELECT count(*) FROM wine WHERE grape_codes @> '{merlot}'"
    assert 0.8 < market.one(target, secret) / market.one(some, secret) < 1.25


def test_references_that_give_rows_other_owners_make_other_unit_definitions(source):
    """The ledger adds up losses of one definition alone."""
    own = 'columns = ["person"]\nto = { table = "public.person" }\n'
    others = ["", own + "none = [7]\n", own + 'none = ["7", 8]\n', own.replace("person", "id", 1)]
    found = set()
    for other in others:
        toml = TOML.replace(own, other or own)
        toml = toml.replace('own = ["person"]', 'own = ["id"]') if other == others[-1] else toml
        found.add(UnitDefinition.of(pipeline.check(Config.loads(toml), source).plan.spec).id)
    for other in (
        TOML.replace('Person = { table = "person" }, O', "O"),
        TOML.replace("Line =", "L ="),
    ):
        found.add(UnitDefinition.of(pipeline.check(Config.loads(other), source).plan.spec).id)
    assert len(found) == len(others) + 2
