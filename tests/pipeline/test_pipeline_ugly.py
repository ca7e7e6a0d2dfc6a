"""Schemas as they grow in real houses: every clone is loaded whole, whatever their rules."""

from __future__ import annotations

import market
import pytest
from integrity import schema_of

from privbench import pipeline

SHOP = r"""
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
"""

ODD = r"""
CREATE SCHEMA "My ""Odd"".";
CREATE TABLE "My ""Odd""."."select" (
  tenant int, id int, parent int, "taken 0" int CHECK ("taken 0" % 2 = 0), PRIMARY KEY (tenant, id),
  FOREIGN KEY (tenant, parent) REFERENCES "My ""Odd""."."select" (tenant, id));
INSERT INTO "My ""Odd""."."select"
  SELECT i % 5, i, CASE WHEN i > 5 THEN i - 5 END, 2 * i FROM generate_series(1, 200) i;
CREATE TABLE hen (id int PRIMARY KEY, egg int UNIQUE NOT NULL);
CREATE TABLE egg (id int PRIMARY KEY, hen int UNIQUE NOT NULL REFERENCES hen DEFERRABLE);
INSERT INTO hen SELECT i, 151 - i FROM generate_series(1, 150) i;
INSERT INTO egg SELECT i, 151 - i FROM generate_series(1, 150) i;
ALTER TABLE hen ADD FOREIGN KEY (egg) REFERENCES egg DEFERRABLE INITIALLY DEFERRED;
CREATE TABLE room (
  no int NOT NULL, lo int NOT NULL, hi int NOT NULL, CHECK (lo < hi),
  EXCLUDE USING gist (int4range(lo, hi) WITH &&));
INSERT INTO room SELECT i, i * 10, i * 10 + 5 FROM generate_series(1, 150) i;
CREATE TABLE day (k int, at timestamptz NOT NULL);
CREATE UNIQUE INDEX ON day (k, ((at AT TIME ZONE 'UTC')::date));
INSERT INTO day SELECT i % 4, '2024-01-01'::timestamptz + i * '1d'::interval
  FROM generate_series(1, 200) i;
"""


@pytest.mark.parametrize("name", market.BY_NAME)
@pytest.mark.parametrize("ddl", [SHOP, ODD], ids=["shop", "odd"])
def test_ugly_schemas_are_cloned_whole(each_server, make_database_on, tmp_path, ddl, name):
    source, target = make_database_on(each_server, statements=ddl), make_database_on(each_server)
    config = pipeline.inspect(source, base=market.config(tmp_path, "", epsilon=20)).config
    report = pipeline.clone(source, target, market.learner(config, name))
    assert report.loaded.loose == ()
    assert schema_of(target) == schema_of(source)
    assert all(report.loaded.rows.values())


def test_a_database_without_tables(make_database, tmp_path):
    config = market.config(tmp_path, "", epsilon=1)
    report = pipeline.clone(make_database(), make_database(), config)
    assert report.loaded.rows == {}
