-- UNIQUE of one and of several columns, with NULLs, covering, and over small types.
-- canaries: quokkanary
CREATE TABLE seat (id integer PRIMARY KEY, row_ smallint NOT NULL, no smallint NOT NULL, label varchar(8) UNIQUE, ticket text UNIQUE, day date, UNIQUE (row_, no), UNIQUE (day, label) INCLUDE (no));
INSERT INTO seat SELECT i, i / 10, i % 10, 'L' || i, CASE WHEN i % 3 = 0 THEN 'quokkanary' || i END, '2024-01-01'::date + i % 4 FROM generate_series(1, 160) i;
CREATE TABLE letter (c char(1) NOT NULL UNIQUE, flag boolean, mark "char", UNIQUE (flag, mark));
INSERT INTO letter SELECT chr(64 + i), i % 2 = 0, chr(64 + i)::"char" FROM generate_series(1, 26) i;
