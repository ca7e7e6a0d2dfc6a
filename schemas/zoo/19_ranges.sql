-- Every built-in range type, one of one's own, and arrays of them.
-- canaries: 918273645
CREATE TYPE floatrange AS RANGE (subtype = float8, subtype_diff = float8mi);
CREATE TABLE span (id integer PRIMARY KEY, i int4range NOT NULL, b int8range, n numrange, t tsrange, z tstzrange, d daterange CHECK (NOT isempty(d)), f floatrange, many int4range[]);
INSERT INTO span SELECT k, int4range(k, k + 5), int8range(k, 918273645), numrange(0, k), tsrange('2024-01-01', NULL), 'empty', daterange('2024-01-01', '2024-01-01'::date + k), floatrange(0, k), ARRAY[int4range(1, k)] FROM generate_series(1, 150) k;
INSERT INTO span (id, i) VALUES (900, '(,)');
