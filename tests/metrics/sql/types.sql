CREATE TYPE size AS ENUM ('small', 'middle', 'large');
CREATE TABLE "Odd Types" (
    id integer PRIMARY KEY, code text UNIQUE, e size, b boolean, n numeric, f float8, d date,
    ts timestamp, tz timestamptz, t time, i interval, j jsonb, wide integer, dated date,
    note text, a integer[]
);
INSERT INTO "Odd Types"
SELECT g, 'c' || g, (ARRAY['large', 'small', NULL])[1 + g % 3]::size, g % 2 = 0,
    CASE g % 3 WHEN 0 THEN 1.0 WHEN 1 THEN 1.00 ELSE 10 END,
    (ARRAY['0', '-0', 'NaN', 'Infinity', '2.5'])[1 + g % 5]::float8,
    date '2020-01-01' + g % 4, timestamp '2020-01-01' + (g % 3) * interval '1 day',
    timestamptz '2020-01-01 00:00:00+00' + (g % 2) * interval '1 hour',
    time '10:00' + (g % 2) * interval '1 hour', (g % 2 + 1) * interval '1 day',
    jsonb_build_object('a', g % 2), g * 10 + {shift}, date '2000-01-01' + g, 'text ' || g,
    ARRAY[g % 2]
FROM generate_series(1, {rows}) g;
