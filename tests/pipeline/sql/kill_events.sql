-- Owners of three events each: documents, dates in order, and keys that follow them.
CREATE TABLE owner (id int PRIMARY KEY, created_at date NOT NULL);
CREATE TABLE event (id int PRIMARY KEY, owner_id int NOT NULL REFERENCES owner, document jsonb,
  state text NOT NULL, created_at date NOT NULL, closed_at date);
INSERT INTO owner SELECT i, date '2020-01-01' + i / 4 FROM generate_series(1, 1500) i;
INSERT INTO event SELECT i, 1 + i % 1500, format('{"kind": "%s", "n": %s}', i % 3, i % 9)::jsonb,
  CASE i % 3 WHEN 0 THEN 'shut' ELSE 'open' END, date '2022-01-01' + i / 9,
  CASE i % 3 WHEN 0 THEN date '2022-02-01' + i / 9 END FROM generate_series(1, 4500) i;
