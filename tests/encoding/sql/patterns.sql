CREATE DOMAIN zip AS varchar(5) CHECK (VALUE ~ '^\d{5}$');
CREATE TABLE t (
  code char(2) PRIMARY KEY CHECK (code ~ '^[A-Z]{2}$'),
  z zip NOT NULL,
  sku text CHECK (sku IS NULL OR sku ~* '^[a-z]{2}-[0-9]+$') UNIQUE,
  lk varchar(6) CHECK (lk LIKE 'a.\_%') CHECK (length(lk) < 6),
  nope text CHECK (nope !~ 'x'),
  odd text CHECK (odd ~ '(a)\1'),
  n int CHECK (n > 0)
);
