CREATE TABLE person (
  id integer PRIMARY KEY, city text NOT NULL, age integer NOT NULL CHECK (age >= 0), note text,
  twice integer GENERATED ALWAYS AS (id * 2) STORED, UNIQUE (twice, id));
CREATE TABLE visit (
  id bigint PRIMARY KEY, person_id integer NOT NULL REFERENCES person, cost integer NOT NULL,
  seen_by integer REFERENCES person DEFERRABLE INITIALLY DEFERRED, paid integer,
  CHECK (paid <= cost));
INSERT INTO person SELECT i, 'city ' || i % 5, i * 7 % 90, 'note ' || i
  FROM generate_series(1, 120) i;
INSERT INTO visit SELECT i, 1 + i % 110, i % 100, CASE WHEN i % 3 = 0 THEN 1 + i % 4 END, i % 100
  FROM generate_series(1, 240) i;
INSERT INTO visit SELECT 1000 + i, 115, i % 100 FROM generate_series(1, 150) i;
CREATE FUNCTION no_more() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''closed''; END';
CREATE TRIGGER closed BEFORE INSERT ON visit FOR EACH ROW EXECUTE FUNCTION no_more();
CREATE RULE kept AS ON DELETE TO person DO INSTEAD NOTHING;
