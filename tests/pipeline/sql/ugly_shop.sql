CREATE TYPE state AS ENUM ('pending', 'paid', 'cancelled');
CREATE DOMAIN mail AS text CHECK (VALUE ~* '^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$');
CREATE TABLE customer (
  id bigserial PRIMARY KEY, email mail NOT NULL,
  phone varchar(20) CHECK (phone ~ '^\+[0-9]{7,15}$'),
  folded text GENERATED ALWAYS AS (lower(email::text)) STORED UNIQUE,
  created timestamptz NOT NULL, deleted timestamptz CHECK (deleted >= created));
CREATE UNIQUE INDEX ON customer (lower(email::text)) WHERE deleted IS NULL;
CREATE TABLE address (
  id bigserial PRIMARY KEY, customer bigint NOT NULL REFERENCES customer ON DELETE CASCADE,
  standard boolean NOT NULL, zip text NOT NULL CHECK (zip ~ '^\d{5}$'));
CREATE UNIQUE INDEX ON address (customer) WHERE standard;
CREATE TABLE booking (
  id bigint GENERATED ALWAYS AS IDENTITY, customer bigint NOT NULL REFERENCES customer,
  at date NOT NULL, state state NOT NULL, paid date, PRIMARY KEY (id, at),
  CHECK (state <> 'paid' OR paid IS NOT NULL)) PARTITION BY RANGE (at);
CREATE TABLE booking_1 PARTITION OF booking FOR VALUES FROM ('2023-01-01') TO ('2023-06-01');
CREATE TABLE booking_2 PARTITION OF booking FOR VALUES FROM ('2023-07-01') TO ('2025-01-01');
CREATE TABLE line (
  booking bigint, at date, no smallint, span int4range NOT NULL, PRIMARY KEY (booking, at, no),
  FOREIGN KEY (booking, at) REFERENCES booking, CHECK (no > 0));
CREATE TABLE follows (
  a bigint REFERENCES customer, b bigint REFERENCES customer, PRIMARY KEY (a, b), CHECK (a <> b));
CREATE TABLE nothing ();
INSERT INTO customer (email, phone, created, deleted)
  SELECT 'u' || i || '@example.org', '+49' || 1000000 + i,
    '2023-01-01'::timestamptz + i * '1h'::interval,
    CASE WHEN i % 9 = 0 THEN '2024-01-01'::timestamptz END FROM generate_series(1, 200) i;
INSERT INTO address (customer, standard, zip)
  SELECT 1 + i % 200, i < 200, lpad(i::text, 5, '0') FROM generate_series(0, 299) i;
INSERT INTO booking (customer, at, state, paid)
  SELECT 1 + i % 200, '2023-07-01'::date + i,
    CASE WHEN i % 2 = 0 THEN 'paid' ELSE 'pending' END::state,
    CASE WHEN i % 2 = 0 THEN '2024-01-01'::date END FROM generate_series(1, 400) i;
INSERT INTO line SELECT id, at, 1, '[1,3)' FROM booking;
INSERT INTO follows SELECT i, i + 1 FROM generate_series(1, 199) i;
INSERT INTO nothing SELECT FROM generate_series(1, 150);
