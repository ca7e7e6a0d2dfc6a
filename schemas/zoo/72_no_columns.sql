-- Tables without columns, empty and with rows; a table of generated columns only.
CREATE TABLE nothing ();
INSERT INTO nothing SELECT FROM generate_series(1, 150);
CREATE TABLE still_nothing ();
CREATE TABLE constant (n integer GENERATED ALWAYS AS (1) STORED);
INSERT INTO constant SELECT FROM generate_series(1, 120);
CREATE TABLE dropped (a integer);
INSERT INTO dropped SELECT i FROM generate_series(1, 120) i;
ALTER TABLE dropped DROP COLUMN a;
