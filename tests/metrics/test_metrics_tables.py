"""Columns read from two real databases, and integrity checks."""

import psycopg
import pytest
from sql_files import sql_of

from privbench.config import Config
from privbench.metrics import integrity, values
from privbench.metrics.columns import is_public
from privbench.metrics.fidelity import fidelity
from privbench.postgres.introspect import introspect
from privbench.postgres.snapshot import Snapshot


@pytest.fixture(scope="module")
def pair(make_database):
    """Two databases of the same shape, the second with other settings and shifted values."""
    one, other = (
        make_database(sql_of(__file__, "types", rows=rows, shift=shift))
        for rows, shift in ((640, 0), (320, 3))
    )
    with psycopg.connect(other, autocommit=True) as connection:
        for setting in ("TimeZone = 'Asia/Tokyo'", "DateStyle = 'SQL, DMY'",
                        "IntervalStyle = 'iso_8601'"):  # fmt: skip
            name = connection.info.dbname
            connection.execute(f'ALTER DATABASE "{name}" SET {setting}'.encode())
    return one, other


def _compare(pair, text=""):
    with Snapshot(pair[0]) as source, Snapshot(pair[1]) as clone:
        table = introspect(source.connection).table('"Odd Types"')
        return fidelity(
            source, clone, table, _distinct(source, table), Config.loads(text)
        ).measured()


def _distinct(source, table):
    sides, names = (source.connection, source.connection), [c.name for c in table.columns]
    found = values.contents(sides, table, names, (640, 640), True)["values"]
    return {part.name: part.source["distinct"] for part in found}


def _by_name(found):
    return {column.name: column for column in found.columns}


def test_equal_values_share_a_cell_whatever_the_settings(pair):
    columns = _by_name(_compare(pair))
    assert columns["n"].labels == ("1", "10")
    assert columns["e"].labels == ("small", "large")
    assert columns["b"].labels == ("false", "true")
    assert set(columns["f"].labels) == {"0", "2.5", "Infinity", "NaN"}
    assert columns["d"].labels[0] == "2020-01-01T00:00:00"
    assert len(columns["tz"].labels) == len(columns["ts"].labels) - 1 == 2
    assert columns["i"].labels == ("86400", "172800")
    assert len(columns["a"].labels) == len(columns["t"].labels) == 2
    real, clone = columns["e"].counts()
    assert real.tolist() == [213, 214, 213]  # NULL, small, large
    assert clone.tolist() == [107, 107, 106]


def test_wide_columns_are_binned_or_left_out(pair):
    found = _compare(pair)
    columns = _by_name(found)
    assert columns["wide"].plan.how == "source quantiles"
    real, clone = columns["wide"].counts()
    assert real.sum() == 640
    assert real[1] == 0  # nothing lies below the source's least value
    assert real[2:].tolist() == [9] + [10] * 62 + [11]
    assert clone[2:33].tolist() == [9] + [10] * 30
    assert columns["wide"].plan.bin_labels[1] == "10 – 100"
    assert columns["dated"].plan.bin_labels[0] == "< 2000-01-02"
    assert set(found.left_out) == {"id", "code", "note", "j"}
    assert found.left_out["j"] == "documents, of which paths are measured"
    assert "without an order" in found.left_out["note"]


def test_public_bins_come_before_quantiles(pair):
    found = _compare(
        pair,
        """
        [tables.'public."Odd Types"'.columns]
        wide = { kind = "range", min = 0, max = 6400, bins = 8 }
        dated = { kind = "range", min = "2000-01-01", max = "2001-10-03", bins = 4 }
        b = { kind = "skip" }
        """,
    )
    columns = _by_name(found)
    assert columns["wide"].plan.edges == tuple(str(800 * i) for i in range(8))
    assert columns["wide"].plan.how == "public bins"
    real, _ = columns["wide"].counts()
    assert real.tolist() == [0, 0, 79, 80, 80, 80, 80, 80, 80, 81]
    assert len(columns["dated"].plan.edges) == 4
    assert found.left_out["b"] == "skipped by the config"


def test_columns_that_the_clone_lacks_and_public_tables_are_known(pair):
    with Snapshot(pair[0]) as source, Snapshot(pair[1]) as clone:
        table = introspect(source.connection).table('"Odd Types"')
        distinct = dict.fromkeys(["id", "b", "e"], 2)
        found = fidelity(source, clone, table, distinct).measured()
    assert found.left_out["n"] == "missing in the clone"
    assert [column.name for column in found.columns] == ["e", "b"]
    assert 3 not in found.divergence
    with Snapshot(pair[0]) as source:
        table = introspect(source.connection).table('"Odd Types"')
    config = Config.loads("""[tables.'"Odd Types"']\nrole = "public" """)
    assert is_public(config, table)
    assert not is_public(Config(), table)
    assert not is_public(None, table)


def test_broken_promises_are_counted(make_database):
    source, clone = (
        make_database(sql_of(__file__, name)) for name in ("promises", "promises_broken")
    )
    with Snapshot(source) as one, Snapshot(clone) as other:
        schema, theirs = introspect(one.connection), introspect(other.connection)
        found = integrity.check(other.connection, schema, theirs)
        whole = integrity.check(one.connection, schema, schema)
        assert integrity.row_count(other.connection, theirs.table("child")) == 5
    broken = {(c.table, c.kind, c.name): c.violations for c in found if c.violations}
    assert broken == {
        ("public.child", "not null", "id"): 1,
        ("public.child", "not null", "label"): 2,
        ("public.child", "primary key", "child_pkey"): 1,
        ("public.child", "unique", "child_mail_key"): 1,
        ("public.child", "foreign key", "pair"): 1,
        ("public.child", "check", "positive"): 2,
        ("public.parent", "primary key", "parent_pkey"): 1,
        ("public.lonely", "present", "public.lonely"): 1,
    }
    assert len(whole) > 8
    assert not any(check.violations for check in whole)
