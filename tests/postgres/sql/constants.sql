-- What the catalog holds as values, and prints in forms that depend on settings.
CREATE TABLE t (
  code text CHECK (code ~ '^\d{5}$' AND code <> 'it''s'),
  bytes bytea DEFAULT '\x00ff5c' CHECK (bytes <> '\x5c'),
  day date DEFAULT '2020-03-04' CHECK (day > '1999-12-31'),
  moment timestamptz CHECK (moment > '2020-06-01 12:00+00'),
  span interval DEFAULT '1 year -2 mons 3 days -04:05:06',
  ratio float8 CHECK (ratio <> 0.30000000000000004),
  price money CHECK (price < '1234.56'::money)
);
CREATE VIEW v AS SELECT code, 'a\b' AS slash FROM t WHERE code = NULL;
