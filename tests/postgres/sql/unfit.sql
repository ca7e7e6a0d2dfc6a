-- What rows may not fit: indexes, an exclusion of a partition, a view that fails.
CREATE TABLE t (no text, lo int, hi int) PARTITION BY LIST (no);
CREATE TABLE t_1 PARTITION OF t DEFAULT;
CREATE INDEX by_no ON t ((no::int));
ALTER TABLE t_1 ADD EXCLUDE USING gist (int4range(lo, hi) WITH &&);
CREATE INDEX kept ON t (hi);
CREATE FUNCTION gone() RETURNS int LANGUAGE plpgsql AS
$$ BEGIN RETURN (SELECT n FROM nowhere); END $$;
CREATE MATERIALIZED VIEW seen AS SELECT gone() WITH NO DATA
