CREATE SCHEMA "My ""Odd"".";
CREATE TABLE "My ""Odd""."."select" (
  tenant int, id int, parent int, "taken 0" int CHECK ("taken 0" % 2 = 0), PRIMARY KEY (tenant, id),
  FOREIGN KEY (tenant, parent) REFERENCES "My ""Odd""."."select" (tenant, id));
INSERT INTO "My ""Odd""."."select"
  SELECT i % 5, i, CASE WHEN i > 5 THEN i - 5 END, 2 * i FROM generate_series(1, 200) i;
CREATE TABLE hen (id int PRIMARY KEY, egg int UNIQUE NOT NULL);
CREATE TABLE egg (id int PRIMARY KEY, hen int UNIQUE NOT NULL REFERENCES hen DEFERRABLE);
INSERT INTO hen SELECT i, 151 - i FROM generate_series(1, 150) i;
INSERT INTO egg SELECT i, 151 - i FROM generate_series(1, 150) i;
ALTER TABLE hen ADD FOREIGN KEY (egg) REFERENCES egg DEFERRABLE INITIALLY DEFERRED;
CREATE TABLE room (
  no int NOT NULL, lo int NOT NULL, hi int NOT NULL, CHECK (lo < hi),
  EXCLUDE USING gist (int4range(lo, hi) WITH &&));
INSERT INTO room SELECT i, i * 10, i * 10 + 5 FROM generate_series(1, 150) i;
CREATE TABLE day (k int, at timestamptz NOT NULL);
CREATE UNIQUE INDEX ON day (k, ((at AT TIME ZONE 'UTC')::date));
INSERT INTO day SELECT i % 4, '2024-01-01'::timestamptz + i * '1d'::interval
  FROM generate_series(1, 200) i;
