-- Tables of a type, LIKE, and CREATE TABLE AS.
-- canaries: quokkanary
CREATE TYPE shape AS (id integer, name text, area numeric(6, 1));
CREATE TABLE typed OF shape (PRIMARY KEY (id), name WITH OPTIONS NOT NULL DEFAULT 'none', CHECK (area >= 0));
INSERT INTO typed SELECT i, 'quokkanary ' || i, i FROM generate_series(1, 150) i;
CREATE TABLE alike (LIKE typed INCLUDING ALL);
CREATE TABLE made AS SELECT id AS n, name FROM typed;
INSERT INTO alike SELECT * FROM typed;
