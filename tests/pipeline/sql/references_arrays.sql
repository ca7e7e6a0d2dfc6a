CREATE TABLE region (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text);
CREATE TABLE grape (code text PRIMARY KEY);
CREATE TABLE wine (id integer PRIMARY KEY, region_ids uuid[] NOT NULL, grape_codes text[]);
INSERT INTO region (name) SELECT 'r' || g FROM generate_series(1, 40) g;
INSERT INTO grape VALUES ('merlot'), ('pinot, "noir"'), ('a~b:c'), ('other');
INSERT INTO wine SELECT g, ARRAY(SELECT id FROM region OFFSET g % 30 LIMIT 1 + g % 3),
  (ARRAY['{merlot,"pinot, \"noir\""}', '{merlot,"a~b:c"}', NULL])[1 + g % 3]::text[]
FROM generate_series(1, 900) g
