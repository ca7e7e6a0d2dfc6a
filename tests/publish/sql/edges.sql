CREATE TABLE edges (
  "a ""b"",c" text, n numeric(6,2), m numeric, f float8, r float4, d date, t timestamp,
  z timestamptz, b boolean, i int2);
INSERT INTO edges VALUES
  ('', 1.5, 'NaN', 'NaN', '-Infinity', '2020-02-29', '2020-01-01 00:00:00.000001',
   '2020-01-01 00:00:00.5+02', true, -32768),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (E'x
"\\.
,;', -9999.99, 1e30, 0.1, 1e-40, 'infinity', '2020-01-01', '0044-03-15 BC',
   false, 7)
