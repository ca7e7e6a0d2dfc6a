CREATE TYPE reading AS (at time, took interval, held numeric(4, 2));
CREATE TABLE typed OF reading (PRIMARY KEY (took));
CREATE TABLE above (n int NOT NULL);
CREATE DOMAIN code AS varchar(30);
CREATE DOMAIN mark AS code;
CREATE TABLE below (place inet, raw bytea, said mark) INHERITS (above);
CREATE INDEX ON below (place);
CREATE INDEX ON below (raw);
CREATE INDEX ON below (n);
CREATE INDEX ON below (said);
CREATE DOMAIN odd AS int CHECK (VALUE % 2 = 1);
CREATE TABLE later (
  n int UNIQUE DEFERRABLE, name text NOT NULL, few boolean NOT NULL, o odd,
  low text GENERATED ALWAYS AS (lower(name)) STORED);
CREATE INDEX ON later (low);
CREATE INDEX ON later (few);
CREATE INDEX ON later (o);
CREATE STATISTICS together (ndistinct) ON few, o FROM later;
CREATE TABLE apart (n int PRIMARY KEY, name text NOT NULL);
CREATE INDEX ON apart (lower(name));
CREATE INDEX ON apart (name) WHERE n > 0;
CREATE TABLE single (n int PRIMARY KEY);
CREATE UNIQUE INDEX ON single ((true));
CREATE INDEX ON single ((single IS NULL));
INSERT INTO single VALUES (1);
INSERT INTO typed SELECT time '10:00', g * interval '1 minute', 1 FROM generate_series(1, 3000) g;
INSERT INTO later SELECT g, 'Name ' || g, g % 2 = 0, 1 FROM generate_series(1, 3000) g;
INSERT INTO apart SELECT g, 'Name ' || g FROM generate_series(1, 3000) g;
INSERT INTO below
  SELECT g, inet '10.0.0.0' + g, int8send(g), 'word ' || g FROM generate_series(1, 3000) g;
