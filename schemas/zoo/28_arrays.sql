-- Arrays of all kinds of types, of several dimensions, NOT NULL and with CHECKs.
-- canaries: quokkanary | 9182700
CREATE TYPE level AS ENUM ('low', 'high');
CREATE TABLE bag (
  id integer PRIMARY KEY, i integer[] NOT NULL, t text[], v varchar(12)[] NOT NULL, n numeric(6, 2)[], b boolean[], d date[], ts timestamptz[], u uuid[], j jsonb[], e level[] NOT NULL,
  grid integer[][], fixed integer[3], by bytea[], c char(4)[], iv interval[], f float8[], tags text[] NOT NULL DEFAULT '{}', p point[], m macaddr[], bt bit(3)[], vb varbit[],
  CHECK (cardinality(i) > 0), CHECK (array_length(fixed, 1) = 3), CHECK (e <> '{}'));
INSERT INTO bag SELECT k, ARRAY[k, 918270000 + k], ARRAY['quokkanary ' || k, NULL], ARRAY['q' || k], ARRAY[1.5], ARRAY[true, NULL], ARRAY['2024-01-01'::date], ARRAY[now()], ARRAY[gen_random_uuid()], ARRAY[jsonb_build_object('a', 'quokkanary ' || k)], ARRAY['low', 'high']::level[],
  ARRAY[[1, 2], [3, k]], ARRAY[1, 2, 3], ARRAY['\x00'::bytea], ARRAY['ab'], ARRAY['1 day'::interval], ARRAY[1.5, 'NaN'], ARRAY['quokkanary ' || k], ARRAY['(1,2)'::point], ARRAY['c0:ff:ee:00:00:01'::macaddr], ARRAY[B'101'], ARRAY[B'1'] FROM generate_series(1, 150) k;
