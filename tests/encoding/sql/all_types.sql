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
