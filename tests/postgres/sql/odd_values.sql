-- Values of every plain type, and the same text a thousand times; read by test_postgres_snapshot.py.
CREATE TABLE v (i int8, s int2, f float8, r float4, b boolean, t text);
INSERT INTO v SELECT nullif((-1::int8 << 63) + n, (-1::int8 << 63) + 7), nullif(n, 3),
  CASE n % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' WHEN 2 THEN n / 3.0::float8 END,
  CASE n % 3 WHEN 0 THEN 'Infinity' WHEN 1 THEN n / 2.0::float4 END, nullif(n, 5) % 2 = 0,
  CASE n % 5 WHEN 0 THEN '' WHEN 1 THEN E'é\n"",\\' WHEN 2 THEN md5(n::text) END
  FROM generate_series(0, 999) n;
INSERT INTO v SELECT 1, 1, 1, 1, true, {odd} FROM generate_series(1, 1000) n;
INSERT INTO v SELECT FROM generate_series(1, 1000);
