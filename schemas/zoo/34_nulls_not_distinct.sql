-- UNIQUE NULLS NOT DISTINCT, as a constraint and as an index.
CREATE TABLE setting (id integer PRIMARY KEY, owner integer, key text NOT NULL, alt integer, UNIQUE NULLS NOT DISTINCT (owner, key));
CREATE UNIQUE INDEX ON setting (alt, owner) NULLS NOT DISTINCT;
INSERT INTO setting SELECT i, nullif(i % 20, 0), 'k' || i / 20, i FROM generate_series(1, 160) i;
