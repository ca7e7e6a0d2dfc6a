CREATE SCHEMA "Old one"; CREATE TABLE "Old one"."T" (i int PRIMARY KEY);
CREATE TABLE public.u (i int REFERENCES "Old one"."T"); CREATE VIEW v AS SELECT * FROM u;
CREATE DOMAIN d AS int; CREATE TYPE c AS (a d); CREATE SEQUENCE s;
CREATE FUNCTION f(d, text) RETURNS c LANGUAGE sql AS 'SELECT NULL::c';
CREATE PROCEDURE p() LANGUAGE sql AS '';
CREATE AGGREGATE g(int) (sfunc = int4pl, stype = int);
CREATE OPERATOR === (leftarg = int, rightarg = int, function = int4eq);
CREATE OPERATOR FAMILY fam USING btree;
CREATE TEXT SEARCH CONFIGURATION conf (COPY = simple);
CREATE COLLATION coll FROM "C";
-- What these bring along goes with them: constructors of a range, an operator family, a sequence.
CREATE TYPE span AS RANGE (subtype = float8);
CREATE OPERATOR CLASS numbers FOR TYPE int USING btree AS OPERATOR 1 <, FUNCTION 1 btint4cmp(int, int);
CREATE TABLE parted (a serial, b span) PARTITION BY RANGE (a);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE STATISTICS together ON a, b FROM parted;
CREATE TEXT SEARCH TEMPLATE plain (LEXIZE = dsimple_lexize);
