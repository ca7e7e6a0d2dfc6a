CREATE TABLE kinds (id integer PRIMARY KEY, kind text, n integer, a integer[]);
INSERT INTO kinds SELECT i, (ARRAY['x', 'y', NULL, {third}])[1 + i % 4], i % {distinct},
    ARRAY[i % 2, 3] FROM generate_series(1, {rows}) i;
CREATE TABLE parts (k integer, v integer) PARTITION BY RANGE (k);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (50);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (50) TO (100);
INSERT INTO parts SELECT i % 100, i % 3 FROM generate_series(1, 300) i;
CREATE TABLE later (v integer);
ANALYZE;
INSERT INTO later SELECT i FROM generate_series(1, 5) i;
