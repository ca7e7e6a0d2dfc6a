-- Generated columns, CHECKs and views whose expressions fail on some values.
CREATE TABLE t (id integer PRIMARY KEY, a smallint NOT NULL, b smallint NOT NULL, c smallint GENERATED ALWAYS AS (a * b) STORED, d text CHECK ((d::integer) > 0), CHECK (100 / nullif(b, 0) < 200));
INSERT INTO t (id,a,b,d) SELECT i, i, 100, i::text FROM generate_series(1,150) i;
CREATE MATERIALIZED VIEW m AS SELECT 1 / (a - 5) FROM t WHERE a > 5;
