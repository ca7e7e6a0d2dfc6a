CREATE TYPE mood AS ENUM ('calm', 'glad');
CREATE TABLE thing (f float8, n numeric, s text, c char(3), u uuid, b bytea, a int[], e mood,
  i inet, iv interval, t time, m money, bb bool, r tstzrange, ir int4range, p point, j jsonb,
  bt bit(4));
INSERT INTO thing SELECT i * 0.37, i * 0.25, 'word' || i % 5, 'x' || i % 3, gen_random_uuid(), 'aa',
  array[i, 1], CASE WHEN i % 2 = 0 THEN 'calm' ELSE 'glad' END::mood, '10.0.0.1',
  i * interval '1 min', time '10:00', i * 0.5, i % 3 = 0,
  tstzrange('2020-01-01', timestamptz '2020-01-01' + i * interval '1 min'), int4range(i, i + 5),
  point(i, i), '{}', b'0101' FROM generate_series(1, 500) i;
CREATE TABLE few (id int PRIMARY KEY, title text NOT NULL UNIQUE);
INSERT INTO few SELECT i, md5(i::text) FROM generate_series(1, 12) i;
