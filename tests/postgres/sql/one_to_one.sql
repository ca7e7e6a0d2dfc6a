-- Keys of child c into parent p, each under whether a parent has one child at most; read by
-- test_postgres_introspect.py. A UNIQUE that only shares a column with the key says nothing, nor one
-- of a partition; values that differ for the UNIQUE may be one for the key, of another type or collation.
--- one to one
CREATE TABLE p (k text PRIMARY KEY);
CREATE TABLE c (k text PRIMARY KEY REFERENCES p);
--- one to one
CREATE TABLE p (k text PRIMARY KEY);
CREATE TABLE c (k text UNIQUE REFERENCES p);
--- many
CREATE TABLE p (k text PRIMARY KEY);
CREATE TABLE c (k text REFERENCES p);
--- one to one
CREATE TABLE p (a text, b int, PRIMARY KEY (a, b));
CREATE TABLE c (x text, y int, UNIQUE (y, x), FOREIGN KEY (x, y) REFERENCES p (a, b));
--- one to one
CREATE TABLE p (a text, b int, PRIMARY KEY (a, b));
CREATE TABLE c (x text, y int UNIQUE, FOREIGN KEY (x, y) REFERENCES p (a, b));
--- many
CREATE TABLE p (a text, b int, PRIMARY KEY (a, b));
CREATE TABLE c (x text, y int, z int, UNIQUE (y, z), FOREIGN KEY (x, y) REFERENCES p (a, b));
--- many
CREATE TABLE p (k int PRIMARY KEY);
CREATE TABLE c (k int REFERENCES p, z int, UNIQUE (k, z));
--- many
CREATE TABLE p (k float8 PRIMARY KEY);
CREATE TABLE c (k numeric UNIQUE REFERENCES p);
--- many
CREATE TABLE p (k timestamp PRIMARY KEY);
CREATE TABLE c (k timestamptz UNIQUE REFERENCES p);
--- one to one
CREATE TABLE p (k text PRIMARY KEY);
CREATE TABLE c (k text REFERENCES p, CONSTRAINT u UNIQUE (k));
CREATE UNIQUE INDEX ON c (k DESC);
--- many
CREATE TABLE p (k text PRIMARY KEY);
CREATE TABLE c (k text REFERENCES p);
CREATE UNIQUE INDEX ON c (k text_pattern_ops);
--- many
CREATE TABLE p (k text PRIMARY KEY);
CREATE TABLE c (k text REFERENCES p);
CREATE UNIQUE INDEX ON c (k COLLATE "C");
--- many
CREATE TABLE p (k text PRIMARY KEY);
CREATE TABLE c (k text REFERENCES p);
CREATE UNIQUE INDEX ON c (lower(k));
--- one to one
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE p (k text COLLATE ci PRIMARY KEY);
CREATE TABLE c (k text COLLATE ci UNIQUE REFERENCES p);
--- many
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE p (k text COLLATE ci PRIMARY KEY);
CREATE TABLE c (k text UNIQUE REFERENCES p);
--- many
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE DOMAIN name AS text COLLATE ci;
CREATE TABLE p (k name PRIMARY KEY);
CREATE TABLE c (k text UNIQUE REFERENCES p);
--- many
CREATE TABLE p (k int PRIMARY KEY);
CREATE TABLE c (k int, z int) PARTITION BY LIST (z);
CREATE TABLE c1 PARTITION OF c (k UNIQUE REFERENCES p) FOR VALUES IN (1);
