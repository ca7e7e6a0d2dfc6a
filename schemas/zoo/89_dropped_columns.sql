-- Columns that were dropped and added: gaps in the numbers, other orders in partitions.
-- canaries: quokkanary
CREATE TABLE gap (a text, id integer PRIMARY KEY, b integer, c integer);
ALTER TABLE gap DROP COLUMN a; ALTER TABLE gap ADD COLUMN d text DEFAULT 'd'; ALTER TABLE gap DROP COLUMN b; ALTER TABLE gap ADD COLUMN e integer NOT NULL DEFAULT 7;
INSERT INTO gap SELECT i, i, 'quokkanary ' || i, i FROM generate_series(1, 150) i;
CREATE TABLE main (id integer NOT NULL, at date NOT NULL, v text) PARTITION BY RANGE (at);
CREATE TABLE part (junk integer, v text, at date NOT NULL, id integer NOT NULL);
ALTER TABLE part DROP COLUMN junk;
ALTER TABLE main ATTACH PARTITION part FOR VALUES FROM ('2024-01-01') TO ('2026-01-01');
INSERT INTO main SELECT i, '2024-01-01'::date + i, 'quokkanary ' || i FROM generate_series(1, 150) i;
