CREATE TABLE person (id int PRIMARY KEY);
INSERT INTO person SELECT generate_series(1, 60);
CREATE TABLE kinds (
  id int PRIMARY KEY, b boolean, s smallint, g bigint NOT NULL, r real, f double precision, n numeric(9,2) UNIQUE,
  day date, at timestamp, zoned timestamptz, hour time, shift timetz, long interval, u uuid, raw bytea, j json,
  odd_day date, odd_at timestamptz, odd_hour time, t text
);
INSERT INTO kinds VALUES
  (1, true, -3, 1234567890123, .5, .1, -1234567.89, '2020-02-29', '1969-12-31 23:59:59.999999',
    '2020-02-29 10:00:00.5+02', '23:59:59.123456', '10:00:00+05:30', '1 mon 2 days 03:04:05.6',
    '6858eb7a-fede-46ad-b848-41eecc27c96e', '\x00ff5c78', '{"a": [1, null]}',
    'infinity', '12000-01-01 00:00:00+00', '24:00:00', 'é'),
  (2, false, 3, 0, -1e30, 1e300, 0, '0001-01-01', '9999-12-31 00:00:00', '1000-01-01 00:00:00+00', '00:00:00',
    '00:00:00-11', '-00:00:01', '00000000-0000-0000-0000-000000000000', '', '[]',
    '-infinity', '2020-01-01 00:00:00+00', '10:00:00', ''),
  (3, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
