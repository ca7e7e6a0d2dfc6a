CREATE TABLE readers (
    id integer PRIMARY KEY, city text NOT NULL, born integer, member boolean NOT NULL
);
CREATE TABLE loans (
    id integer PRIMARY KEY, reader integer NOT NULL REFERENCES readers, taken date NOT NULL,
    weeks smallint CHECK (weeks > 0), remark text
);
CREATE TABLE branches (code text PRIMARY KEY, seats integer NOT NULL);
INSERT INTO readers
SELECT i, (ARRAY['Aarhus', 'Bergen', 'Turku'])[1 + i % 3 * (i % {step}) % 3],
    CASE WHEN i % 7 > 0 THEN 1940 + (i * 31) % 70 END, (i * 31) % 70 < 25
FROM generate_series(1, 400) i;
INSERT INTO loans
SELECT i, 1 + (i * i) % 400, date '2023-01-01' + (i * 3) % 700, 1 + i % {step} % 8, 'r' || i
FROM generate_series(1, {loans}) i;
INSERT INTO branches VALUES ('north', 10), ('south', 20);
ANALYZE;
