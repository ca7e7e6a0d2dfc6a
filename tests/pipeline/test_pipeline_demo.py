"""The demonstration's source is a database one could take for a real one."""

from __future__ import annotations

import psycopg
import pytest
from integrity import pg_dump

from privbench.errors import ConnectionFailed, TargetError, UsageError
from privbench.pipeline.demo import LEAST_ROWS, make_clinic

ROWS = 12_000
TABLES = (
    "department", "diagnosis_code", "substance", "staff", "patient", "encounter",
    "encounter_diagnosis", "patient_allergy", "invoice",
)  # fmt: skip
#: What holds of it, as questions that are answered with true.
TRAITS = {
    "as many rows as were asked for": f"SELECT {ROWS} = "
    + " + ".join(f"(SELECT count(*) FROM {table})" for table in TABLES),
    "no table is empty": " AND ".join(f"EXISTS (SELECT FROM {table})" for table in TABLES),
    "few patients have many encounters": "SELECT max(n) > 5.0 * sum(n) / (SELECT count(*) FROM"
    " patient) AND count(*) < 0.9 * (SELECT count(*) FROM patient)"
    " FROM (SELECT count(*) n FROM encounter GROUP BY patient_id) x",
    "children go to paediatrics": "SELECT 10 * avg(now()::date - birth_date)"
    " FILTER (WHERE department_code = 'PAED') < 7 * avg(now()::date - birth_date)"
    " FROM encounter JOIN patient p ON p.id = patient_id",
    "beds cost more than calls": "SELECT avg(charge) FILTER (WHERE kind = 'inpatient')"
    " > 10 * avg(charge) FILTER (WHERE kind = 'remote') FROM encounter",
    "columns have NULLs, and not only": "SELECT every(share BETWEEN 0.02 AND 0.95) FROM (VALUES"
    " ((SELECT 1 - count(email)::float / count(*) FROM patient)),"
    " ((SELECT 1 - count(height_cm)::float / count(*) FROM patient)),"
    " ((SELECT 1 - count(staff_id)::float / count(*) FROM encounter)),"
    " ((SELECT 1 - count(follow_up_of)::float / count(*) FROM encounter)),"
    " ((SELECT 1 - count(note)::float / count(*) FROM encounter)),"
    " ((SELECT 1 - count(noted)::float / count(*) FROM patient_allergy)),"
    " ((SELECT 1 - count(paid_at)::float / count(*) FROM invoice))) AS x(share)",
    "notes differ": "SELECT count(DISTINCT note) > 100 FROM encounter",
    "draws of one row are independent": "SELECT abs(corr((email IS NULL)::int,"
    " (height_cm IS NULL)::int)) < 0.1 AND abs(corr((phone IS NULL)::int, (smoker IS NULL)::int))"
    " < 0.1 FROM patient",
    "a follow-up follows an earlier visit of the same patient": "SELECT count(*) = 0"
    " FROM encounter e JOIN encounter f ON f.id = e.follow_up_of"
    " WHERE f.patient_id <> e.patient_id OR f.started_at > e.started_at",
    "staff works in the department of the visit": "SELECT count(*) = 0 FROM encounter e"
    " JOIN staff s ON s.id = e.staff_id WHERE s.department_code <> e.department_code",
    "nobody is seen before registration": "SELECT count(*) = 0 FROM encounter e"
    " JOIN patient p ON p.id = e.patient_id WHERE e.started_at::date < p.registered_at::date",
    "lines are numbered from one without gaps": "SELECT every(gap = 0 AND low = 1) FROM (SELECT"
    " max(line) - count(*) gap, min(line) low FROM encounter_diagnosis GROUP BY encounter_id) x",
    "only paid invoices have a day of payment": "SELECT every((status = 'paid') = (paid_at IS NOT"
    " NULL)) FROM invoice",
    "the view answers": "SELECT sum(visits) = (SELECT count(*) FROM encounter)"
    " FROM department_load",
    "identities go on past the rows": "SELECT nextval(pg_get_serial_sequence('encounter', 'id'))"
    " = max(id) + 1 FROM encounter",
}


@pytest.fixture(scope="module")
def clinic(make_database):
    dsn = make_database()
    make_clinic(dsn, rows=ROWS, seed=3)
    with psycopg.connect(dsn) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


@pytest.mark.parametrize("trait", TRAITS)
def test_the_clinic_has_what_real_databases_have(clinic, trait):
    question = TRAITS[trait]
    row = clinic.execute(question if question.startswith("SELECT") else f"SELECT {question}")
    assert row.fetchone() == (True,)


def test_a_seed_gives_the_same_rows_and_what_is_refused(make_database):
    one, two, other = (make_database() for _ in range(3))
    for dsn, seed in ((one, 3), (two, 3), (other, 4)):
        make_clinic(dsn, LEAST_ROWS, seed)
    dumps = [pg_dump(dsn, "--data-only", "--inserts") for dsn in (one, two, other)]
    assert dumps[0] == dumps[1] != dumps[2]
    with pytest.raises(TargetError, match="already exists"):
        make_clinic(one, rows=2_000)
    with pytest.raises(UsageError, match="at least 2000"):
        make_clinic(one, rows=10)
    with pytest.raises(ConnectionFailed):
        make_clinic("host=/nonexistent dbname=none", rows=2_000)
