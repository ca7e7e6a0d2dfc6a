-- Domains with a CHECK within arrays, composites and ranges.
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN even AS integer CHECK (VALUE % 2 = 0);
CREATE TYPE measure AS (amount positive, half even, unit text);
CREATE TYPE posrange AS RANGE (subtype = positive);
CREATE TYPE evenrange AS RANGE (subtype = even);
CREATE TABLE holds (id integer PRIMARY KEY, list positive[] NOT NULL, m measure NOT NULL, r posrange NOT NULL, plain positive NOT NULL, evens even[], pairs evenrange NOT NULL);
INSERT INTO holds SELECT i, ARRAY[i, 2]::positive[], ROW(i, 2 * i, 'kg')::measure, posrange(1, i + 1), i, ARRAY[2, 4]::even[], evenrange(2, 2 * i + 2) FROM generate_series(1, 150) i;
