-- Tables without rows, with keys to and from tables with rows.
CREATE TABLE full_one (id integer PRIMARY KEY, n integer NOT NULL);
INSERT INTO full_one SELECT i, i FROM generate_series(1, 120) i;
CREATE TABLE empty_one (id serial PRIMARY KEY, f integer NOT NULL REFERENCES full_one, t text, at timestamptz, x numeric);
CREATE TABLE child (id integer PRIMARY KEY, e integer REFERENCES empty_one, f integer NOT NULL REFERENCES full_one);
INSERT INTO child SELECT i, NULL, i FROM generate_series(1, 120) i;
CREATE TABLE empty_child (e integer PRIMARY KEY REFERENCES empty_one);
