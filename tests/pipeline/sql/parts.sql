CREATE TABLE holder (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL,
  CONSTRAINT odd CHECK ((a * b) % 7 <> 3));
CREATE UNIQUE INDEX holder_place ON holder ((id % 90));
CREATE TABLE visit (id bigint PRIMARY KEY, holder_id integer NOT NULL REFERENCES holder, n integer,
  kind text NOT NULL);
CREATE TABLE plain (id integer PRIMARY KEY, x integer CHECK (x >= 0), y text UNIQUE,
  z integer GENERATED ALWAYS AS (x + 1) STORED);
CREATE TABLE room (id integer PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&));
CREATE TABLE measured (id integer, at date, v numeric, PRIMARY KEY (id, at),
  CHECK (v * 3 <> 9)) PARTITION BY RANGE (at);
CREATE TABLE measured_1 PARTITION OF measured FOR VALUES FROM ('2020-01-01') TO ('2020-06-01');
CREATE TABLE measured_2 PARTITION OF measured FOR VALUES FROM ('2020-06-10') TO ('2021-01-01');
ALTER TABLE measured_2 ADD CONSTRAINT own CHECK (extract(day FROM at) <> 13);
CREATE TABLE bill (id serial PRIMARY KEY, net integer, base integer,
  share integer GENERATED ALWAYS AS (100 / (net - base)) STORED);
CREATE TABLE nothing ();
CREATE UNLOGGED TABLE cache (i integer NOT NULL);
INSERT INTO cache SELECT i FROM generate_series(1, 50) i;
INSERT INTO nothing SELECT FROM generate_series(1, 50);
INSERT INTO holder SELECT i, i % 10, 7 FROM generate_series(0, 89) i;
INSERT INTO visit SELECT i, i % 90, i % 13, 'k' || i % 5 FROM generate_series(1, 400) i;
INSERT INTO plain SELECT i, i % 17, 'y' || i FROM generate_series(1, 300) i;
INSERT INTO room SELECT i, int4range(2 * i, 2 * i + 1) FROM generate_series(1, 60) i;
INSERT INTO measured SELECT i, date '2020-01-01' + i % 150, i % 9 * 0.5 + 0.25
  FROM generate_series(1, 200) i;
INSERT INTO measured SELECT i, date '2020-07-01' + i % 10, i % 9 * 0.5 + 0.25
  FROM generate_series(1, 100) i;
INSERT INTO bill (net, base) SELECT i % 40, i % 40 + 1 + i % 3 FROM generate_series(1, 100) i;
