-- PERIOD foreign keys: within keys of periods, by several columns, into their own table.
-- needs: 18
-- canaries: Quokkanary
CREATE TABLE tenants (tenant int4range PRIMARY KEY, name text NOT NULL);
CREATE TABLE employees (tenant int4range NOT NULL REFERENCES tenants, id int4range NOT NULL, valid daterange NOT NULL, name text NOT NULL, PRIMARY KEY (tenant, id, valid WITHOUT OVERLAPS));
CREATE TABLE salaries (tenant int4range NOT NULL, id int4range NOT NULL, valid daterange NOT NULL, amount numeric(10, 2) NOT NULL CHECK (amount > 0), PRIMARY KEY (tenant, id, valid WITHOUT OVERLAPS), FOREIGN KEY (tenant, id, PERIOD valid) REFERENCES employees (tenant, id, PERIOD valid));
CREATE TABLE bonuses (number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant int4range NOT NULL, id int4range NOT NULL, valid daterange NOT NULL CHECK (NOT isempty(valid)), FOREIGN KEY (tenant, id, PERIOD valid) REFERENCES salaries (tenant, id, PERIOD valid));
CREATE TABLE seats (seat int4range NOT NULL, at tstzrange NOT NULL, beside int4range, PRIMARY KEY (seat, at WITHOUT OVERLAPS), FOREIGN KEY (beside, PERIOD at) REFERENCES seats (seat, PERIOD at));
INSERT INTO tenants SELECT int4range(i, i, '[]'), 'Quokkanary ' || i FROM generate_series(1, 20) i;
INSERT INTO employees SELECT int4range(1 + i % 20, 1 + i % 20, '[]'), int4range(i, i, '[]'), daterange('2015-01-01', CASE WHEN i % 3 > 0 THEN '2024-01-01'::date END), 'Quokkanary ' || i FROM generate_series(1, 400) i;
INSERT INTO salaries SELECT tenant, id, daterange('2015-01-01'::date + 365 * k, '2015-01-01'::date + 365 * k + 365), 2000 + 100 * k FROM employees, generate_series(0, 4) k;
INSERT INTO bonuses (tenant, id, valid) SELECT tenant, id, daterange(lower(valid), lower(valid) + 30) FROM salaries WHERE lower(id) % 4 = 0;
INSERT INTO seats SELECT int4range(i, i, '[]'), tstzrange('2024-01-01 10:00+00', '2024-01-01 12:00+00') FROM generate_series(1, 150) i;
UPDATE seats SET beside = int4range(1 + lower(seat) % 150, 1 + lower(seat) % 150, '[]') WHERE lower(seat) % 5 > 0;
