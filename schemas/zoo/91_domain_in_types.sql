-- Domains with a CHECK within arrays, composites and ranges.
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TYPE measure AS (amount positive, unit text);
CREATE TYPE posrange AS RANGE (subtype = positive);
CREATE TABLE holds (id integer PRIMARY KEY, list positive[] NOT NULL, m measure NOT NULL, r posrange NOT NULL, plain positive NOT NULL);
INSERT INTO holds SELECT i, ARRAY[i, 2]::positive[], ROW(i, 'kg')::measure, posrange(1, i + 1), i FROM generate_series(1, 150) i;
