CREATE TYPE mood AS ENUM ('sad', 'so so', 'it''s "fine", ok');
CREATE DOMAIN percent AS numeric(5,2) CHECK (VALUE >= 0 AND VALUE <= 100);
CREATE DOMAIN code AS varchar(12) CHECK (char_length(VALUE) >= 3);
CREATE DOMAIN small AS percent NOT NULL CHECK (VALUE < 50);
CREATE TYPE pair AS (a integer, b text);
CREATE TABLE "All Types" (
  i2 smallint, i4 integer, i8 bigint, age integer CHECK (age BETWEEN 18 AND 120),
  positive integer CHECK (positive > 0), status integer CHECK (status IN (1, 2, 7)),
  money_ numeric(10,2), free_num numeric, wide numeric(38,12), coarse numeric(5,-2),
  fine_num numeric(3,5), pct percent, f4 real, f8 double precision,
  unit_f double precision CHECK (unit_f >= 0 AND unit_f < 1),
  b boolean, m mood, s_text text, s_var varchar(7), s_char char(4), s_code code, s_name name,
  level text CHECK (level IN ('low', 'mid', 'hi,gh')),
  d date, d_lim date CHECK (d_lim >= '2001-01-01' AND d_lim <= '2001-12-31'),
  ts timestamp, ts0 timestamp(0), tz timestamptz, tz3 timestamptz(3), t time, t0 time(0),
  ttz timetz, iv interval, iv_day interval day to second(0),
  u uuid, j json, jb jsonb, x xml, by bytea, ip inet, ci cidr, mac macaddr, mac8 macaddr8,
  arr integer[], tarr text[][], r int4range, mr int4multirange, tsv tsvector, tsq tsquery, p point,
  ln line, ls lseg, bx box, pth path, poly polygon, circ circle, bit1 bit, bit9 bit(9),
  vb varbit(5), vbn varbit, mny money, o oid, lsn pg_lsn, jp jsonpath, ch "char", comp pair,
  sm small DEFAULT 1, email varchar(20), first_name text, skipped integer NOT NULL DEFAULT 4,
  skipped_const date NOT NULL, gen integer GENERATED ALWAYS AS (i4 / 2) STORED
);
INSERT INTO "All Types" (sm, skipped_const)
  VALUES (3, '2000-01-01');
INSERT INTO "All Types" (i2, i4, i8, age, positive, status, money_, free_num, wide, coarse,
  fine_num, pct, f4, f8, unit_f, b, m, s_text, s_var, s_char, s_code, s_name, level, d, d_lim,
  ts, ts0, tz, t, ttz, iv, u, j, ip, arr, sm, email, first_name, comp, mny, skipped_const)
  VALUES (-32768, 2147483647, -9223372036854775808, 18, 1, 7, '-99999999.99',
    '123456789012345678901234567890.5', '12345678901234567890123456.5', 12300, '0.00999', 100,
    1.5, -1e+308, 0, true, 'so so', 'canary-7f3a91-secret', 'abc', 'ab', 'xyz', 'n', 'hi,gh',
    'infinity', '2001-12-31', '-infinity', '2001-02-03 04:05:06', '2001-02-03 04:05:06+09',
    '23:59:59.999999', '24:00:00-08', '1 year 2 mons', '00000000-0000-0000-0000-000000000000',
    '[1]', '::1', '{1,2}'::int2[], 49, 'canary-7f3a91-secret', 'canary-7f3a91-secret', '(1,x)',
    '1,019.99', '2000-01-01');
INSERT INTO "All Types" (i2, i8, money_, free_num, f4, f8, s_text, d, ts, tz, iv, sm,
  skipped_const)
  VALUES (32767, 9223372036854775807, 'NaN', 'NaN', 'NaN', 'Infinity', '', '0044-03-15 BC',
    '294276-12-31 23:59:59.999999', 'infinity', '-178000000 years', 0, '2000-01-01');
INSERT INTO "All Types" (f8, free_num, d, ts, tz, ts0, t, iv, i8, sm, s_text, skipped_const)
  VALUES ('-Infinity', '1e-500', '5874897-12-31', 'infinity', '-infinity', '-infinity',
    '24:00:00', '178000000 years', -9223372036854775807, '0.01', repeat('x', 5000), '2000-01-01');
