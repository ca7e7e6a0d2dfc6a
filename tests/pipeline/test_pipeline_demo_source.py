"""The demonstration's source is a database one could take for a real one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from privbench.errors import ConnectionFailed, TargetError, UsageError
from privbench.pipeline import demo_source

ROWS = 12_000


@pytest.fixture(scope="module")
def clinic(make_database: Callable[[], str]) -> tuple[str, dict[str, int]]:
    dsn = make_database()
    return dsn, demo_source.create(dsn, rows=ROWS, seed=3)


def _one(dsn: str, query: str) -> tuple[object, ...]:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row


def test_row_counts_are_as_asked_and_as_stored(clinic: tuple[str, dict[str, int]]) -> None:
    dsn, rows = clinic
    assert sum(rows.values()) == ROWS
    assert len(rows) >= 6
    for table, count in rows.items():
        assert _one(dsn, f"SELECT count(*) FROM {table}") == (count,)


def test_same_seed_same_rows_other_seed_other_rows() -> None:
    first, again, other = (demo_source.generate(ROWS, seed) for seed in (3, 3, 4))
    for table, columns in first.items():
        assert pa.table(columns).equals(pa.table(again[table]))
    assert not pa.table(first["encounter"]).equals(pa.table(other["encounter"]))


def test_identities_go_on_past_the_rows(clinic: tuple[str, dict[str, int]]) -> None:
    dsn, rows = clinic
    with psycopg.connect(dsn) as connection:
        new = connection.execute(
            "INSERT INTO encounter"
            " (patient_id, department_code, kind, priority, started_at, charge)"
            " VALUES (1, 'EMER', 'emergency', 1, now(), 5) RETURNING id"
        ).fetchone()
        connection.rollback()
    assert new == (rows["encounter"] + 1,)


def test_skew_and_correlation(clinic: tuple[str, dict[str, int]]) -> None:
    dsn, rows = clinic
    heaviest, visitors = _one(
        dsn,
        "SELECT max(n), count(*) FROM (SELECT count(*) n FROM encounter GROUP BY patient_id) x",
    )
    mean = rows["encounter"] / rows["patient"]
    assert heaviest > 5 * mean
    assert visitors < 0.9 * rows["patient"]
    young, all_ages = _one(
        dsn,
        "SELECT avg(extract(year FROM age(birth_date))) FILTER (WHERE department_code = 'PAED'),"
        " avg(extract(year FROM age(birth_date)))"
        " FROM encounter JOIN patient p ON p.id = patient_id",
    )
    assert 10 * young < 7 * all_ages
    inpatient, remote = _one(
        dsn,
        "SELECT avg(charge) FILTER (WHERE kind = 'inpatient'),"
        " avg(charge) FILTER (WHERE kind = 'remote') FROM encounter",
    )
    assert inpatient > 10 * remote


def test_meaning_holds_across_tables(clinic: tuple[str, dict[str, int]]) -> None:
    dsn, _ = clinic
    broken = {
        "a follow-up follows an earlier visit of the same patient": (
            "SELECT count(*) FROM encounter e JOIN encounter f ON f.id = e.follow_up_of"
            " WHERE f.patient_id <> e.patient_id OR f.started_at > e.started_at"
        ),
        "staff works in the department of the visit": (
            "SELECT count(*) FROM encounter e JOIN staff s ON s.id = e.staff_id"
            " WHERE s.department_code <> e.department_code"
        ),
        "nobody is seen before registration": (
            "SELECT count(*) FROM encounter e JOIN patient p ON p.id = e.patient_id"
            " WHERE e.started_at::date < p.registered_at::date"
        ),
        "lines are numbered from one without gaps": (
            "SELECT count(*) FROM (SELECT max(line) - count(*) gap, min(line) low"
            " FROM encounter_diagnosis GROUP BY encounter_id) x WHERE gap <> 0 OR low <> 1"
        ),
        "only paid invoices have a day of payment": (
            "SELECT count(*) FROM invoice WHERE (status = 'paid') <> (paid_at IS NOT NULL)"
        ),
    }
    assert {rule: _one(dsn, query)[0] for rule, query in broken.items()} == dict.fromkeys(broken, 0)


def test_nulls_and_text(clinic: tuple[str, dict[str, int]]) -> None:
    tables = demo_source.generate(ROWS, 3)
    shares = {
        (table, column): pa.array(values).null_count / len(values)
        for table, columns in tables.items()
        for column, values in columns.items()
    }
    holed = [share for share in shares.values() if share > 0]
    assert len(holed) >= 8
    assert max(holed) < 0.95
    notes = tables["encounter"]["note"].drop_null().to_numpy(zero_copy_only=False)
    assert len(np.unique(notes)) > 100


def test_view_answers(clinic: tuple[str, dict[str, int]]) -> None:
    dsn, rows = clinic
    assert _one(dsn, "SELECT sum(visits) FROM department_load") == (rows["encounter"],)


def test_smallest_size_and_refusals(make_database: Callable[[], str]) -> None:
    dsn = make_database()
    assert sum(demo_source.create(dsn, rows=demo_source.LEAST_ROWS).values()) == 2_000
    with pytest.raises(TargetError, match="already exists"):
        demo_source.create(dsn, rows=2_000)
    with pytest.raises(UsageError, match="at least 2000"):
        demo_source.create(dsn, rows=10)
    with pytest.raises(ConnectionFailed):
        demo_source.create("host=/nonexistent dbname=none", rows=2_000)
