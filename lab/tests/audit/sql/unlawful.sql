CREATE TABLE person (id integer PRIMARY KEY, plan text NOT NULL DEFAULT '', born date);
CREATE TABLE profile (
  id integer PRIMARY KEY, person integer NOT NULL REFERENCES person,
  label text NOT NULL, score integer NOT NULL);
CREATE TABLE note (
  id integer PRIMARY KEY, profile integer NOT NULL REFERENCES profile,
  reader integer NOT NULL REFERENCES person, kind text, level integer);
INSERT INTO person SELECT g, 'plan ' || g % 3, date '2000-01-01' + g FROM generate_series(1, 60) g;
INSERT INTO profile SELECT g, g, 'label ' || g % 4, g % 9 FROM generate_series(1, 60) g;
INSERT INTO note SELECT g, g % 60 + 1, g % 7 + 1, (ARRAY['a', 'b'])[g % 2 + 1], g % 5
FROM generate_series(1, 200) g;
CREATE INDEX profile_person ON profile (person);
SET session_replication_role = replica;
SET allow_system_table_mods = on;
-- Many rows where the key is UNIQUE.
INSERT INTO profile SELECT 1000 + g, 7, 'mine', 3 FROM generate_series(1, 400) g;
UPDATE pg_index SET indisunique = true WHERE indexrelid = 'profile_person'::regclass;
-- Foreign keys that lead to no row, of rows that own others.
INSERT INTO profile SELECT 2000 + g, 3000 + g, 'lost', g FROM generate_series(1, 5) g;
INSERT INTO note SELECT 300 + g, 2001, 5000 + g, 'b', 2 FROM generate_series(1, 40) g;
-- NULL against NOT NULL.
ALTER TABLE person ALTER plan DROP NOT NULL;
ALTER TABLE profile ALTER person DROP NOT NULL, ALTER label DROP NOT NULL, ALTER score DROP NOT NULL;
ALTER TABLE note ALTER profile DROP NOT NULL, ALTER reader DROP NOT NULL;
INSERT INTO person SELECT 100 + g FROM generate_series(1, 9) g;
UPDATE person SET plan = NULL WHERE id > 100;
INSERT INTO profile SELECT 4000 + g FROM generate_series(1, 6) g;
INSERT INTO note SELECT 400 + g FROM generate_series(1, 8) g;
UPDATE pg_attribute SET attnotnull = true
WHERE (attrelid, attname) IN (VALUES ('person'::regclass, 'plan'), ('profile'::regclass, 'person'),
  ('profile'::regclass, 'label'), ('profile'::regclass, 'score'), ('note'::regclass, 'profile'),
  ('note'::regclass, 'reader'));
-- Values that a CHECK forbids.
ALTER TABLE note ADD CONSTRAINT kinds CHECK (kind IN ('x', 'y')) NOT VALID,
  ADD CONSTRAINT levels CHECK (level BETWEEN 7 AND 9) NOT VALID;
UPDATE pg_constraint SET convalidated = true WHERE conname IN ('kinds', 'levels');
