-- Periods as keys: WITHOUT OVERLAPS, PERIOD foreign keys, virtual columns.
-- needs: 18
CREATE TABLE employees (id int4range NOT NULL, valid daterange NOT NULL, name text NOT NULL, salary numeric(10, 2), PRIMARY KEY (id, valid WITHOUT OVERLAPS));
CREATE TABLE projects (id int4range NOT NULL, valid daterange NOT NULL, employee_id int4range, label text, days integer GENERATED ALWAYS AS (upper(valid) - lower(valid)) VIRTUAL, PRIMARY KEY (id, valid WITHOUT OVERLAPS), FOREIGN KEY (employee_id, PERIOD valid) REFERENCES employees (id, PERIOD valid));
INSERT INTO employees SELECT int4range(i, i + 1), daterange('2020-01-01', '2022-01-01'), 'Quokkanary ' || i, 3000 + i FROM generate_series(1, 200) i;
INSERT INTO employees SELECT int4range(i, i + 1), daterange('2022-01-01', '2024-01-01'), 'Quokkanary ' || i, 3500 + i FROM generate_series(1, 200) i;
INSERT INTO projects SELECT int4range(i, i + 1), daterange('2021-06-01', '2022-06-01'), CASE WHEN i % 5 > 0 THEN int4range(1 + i % 200, 2 + i % 200) END, 'quokkanary' FROM generate_series(1, 300) i;
