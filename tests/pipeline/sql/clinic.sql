-- What holds of the demonstration's source, each a question that is answered with true; read by
-- test_pipeline_demo.py.

--- as many rows as were asked for
SELECT 12000 = (SELECT count(*) FROM department) + (SELECT count(*) FROM diagnosis_code) +
  (SELECT count(*) FROM substance) + (SELECT count(*) FROM staff) + (SELECT count(*) FROM
  patient) + (SELECT count(*) FROM encounter) + (SELECT count(*) FROM encounter_diagnosis) +
  (SELECT count(*) FROM patient_allergy) + (SELECT count(*) FROM invoice)
--- no table is empty
SELECT EXISTS (SELECT FROM department) AND EXISTS (SELECT FROM diagnosis_code) AND EXISTS
  (SELECT FROM substance) AND EXISTS (SELECT FROM staff) AND EXISTS (SELECT FROM patient) AND
  EXISTS (SELECT FROM encounter) AND EXISTS (SELECT FROM encounter_diagnosis) AND EXISTS (SELECT
  FROM patient_allergy) AND EXISTS (SELECT FROM invoice)
--- few patients have many encounters
SELECT max(n) > 5.0 * sum(n) / (SELECT count(*) FROM patient) AND count(*) < 0.9 * (SELECT
  count(*) FROM patient) FROM (SELECT count(*) n FROM encounter GROUP BY patient_id) x
--- children go to paediatrics
SELECT 10 * avg(now()::date - birth_date) FILTER (WHERE department_code = 'PAED') < 7 *
  avg(now()::date - birth_date) FROM encounter JOIN patient p ON p.id = patient_id
--- beds cost more than calls
SELECT avg(charge) FILTER (WHERE kind = 'inpatient') > 10 * avg(charge) FILTER (WHERE kind =
  'remote') FROM encounter
--- columns have NULLs, and not only
SELECT every(share BETWEEN 0.02 AND 0.95) FROM (VALUES ((SELECT 1 - count(email)::float /
  count(*) FROM patient)), ((SELECT 1 - count(height_cm)::float / count(*) FROM patient)),
  ((SELECT 1 - count(staff_id)::float / count(*) FROM encounter)), ((SELECT 1 -
  count(follow_up_of)::float / count(*) FROM encounter)), ((SELECT 1 - count(note)::float /
  count(*) FROM encounter)), ((SELECT 1 - count(noted)::float / count(*) FROM patient_allergy)),
  ((SELECT 1 - count(paid_at)::float / count(*) FROM invoice))) AS x(share)
--- notes differ
SELECT count(DISTINCT note) > 100 FROM encounter
--- draws of one row are independent
SELECT abs(corr((email IS NULL)::int, (height_cm IS NULL)::int)) < 0.1 AND abs(corr((phone IS
  NULL)::int, (smoker IS NULL)::int)) < 0.1 FROM patient
--- a follow-up follows an earlier visit of the same patient
SELECT count(*) = 0 FROM encounter e JOIN encounter f ON f.id = e.follow_up_of WHERE
  f.patient_id <> e.patient_id OR f.started_at > e.started_at
--- staff works in the department of the visit
SELECT count(*) = 0 FROM encounter e JOIN staff s ON s.id = e.staff_id WHERE s.department_code
  <> e.department_code
--- nobody is seen before registration
SELECT count(*) = 0 FROM encounter e JOIN patient p ON p.id = e.patient_id WHERE
  e.started_at::date < p.registered_at::date
--- lines are numbered from one without gaps
SELECT every(gap = 0 AND low = 1) FROM (SELECT max(line) - count(*) gap, min(line) low FROM
  encounter_diagnosis GROUP BY encounter_id) x
--- only paid invoices have a day of payment
SELECT every((status = 'paid') = (paid_at IS NOT NULL)) FROM invoice
--- the view answers
SELECT sum(visits) = (SELECT count(*) FROM encounter) FROM department_load
--- identities go on past the rows
SELECT nextval(pg_get_serial_sequence('encounter', 'id')) = max(id) + 1 FROM encounter
