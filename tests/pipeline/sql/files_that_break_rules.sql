CREATE TABLE stay (id integer PRIMARY KEY, a integer, b integer, during int4range,
  CONSTRAINT odd CHECK ((a * b) % 7 <> 3), CONSTRAINT apart CHECK (a < b),
  CONSTRAINT alone EXCLUDE USING gist (during WITH &&));
INSERT INTO stay SELECT i, 0, 7, int4range(i, i + 1) FROM generate_series(1, 50) i
