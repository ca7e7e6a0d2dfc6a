-- A table of 1,600 columns.
DO $$ BEGIN EXECUTE (SELECT 'CREATE TABLE wide (id integer PRIMARY KEY, ' || string_agg(format('c%s %s', i, (ARRAY['integer', 'boolean', 'smallint', 'real'])[1 + i % 4]), ', ') || ')' FROM generate_series(1, 1599) i); END $$;
INSERT INTO wide (id, c1, c2, c3, c4) SELECT i, i % 2 = 0, i % 3, i, i % 5 FROM generate_series(1, 120) i;
