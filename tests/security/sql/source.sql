-- What the owner of a hostile source prepares for the role that reads it, and the search path that
-- the database then has; read by test_source_code.py. $BODY is that of a function which fails, so
-- that the server's log tells of it.

--- evil, pg_catalog: a function named as PostgreSQL's own, by the database's search path
CREATE SCHEMA IF NOT EXISTS evil;
CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text $BODY
CREATE FUNCTION evil.current_setting(text) RETURNS text $BODY
CREATE FUNCTION evil.count(anyelement) RETURNS bigint $BODY
CREATE FUNCTION evil.has_function_privilege(text, text) RETURNS boolean $BODY
CREATE FUNCTION evil.unnest(text[]) RETURNS SETOF text $BODY
CREATE FUNCTION evil.to_jsonb(anyelement) RETURNS jsonb $BODY
CREATE FUNCTION evil.char_length(text) RETURNS integer $BODY

--- public: an operator that fits better than PostgreSQL's own
CREATE FUNCTION public.f(oid, smallint) RETURNS boolean $BODY
CREATE OPERATOR public.>= (LEFTARG = oid, RIGHTARG = smallint, FUNCTION = public.f);
CREATE FUNCTION public.f(oid, integer) RETURNS boolean $BODY
CREATE OPERATOR public.>= (LEFTARG = oid, RIGHTARG = integer, FUNCTION = public.f);
CREATE FUNCTION public.f(name, name) RETURNS boolean $BODY
CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = name, FUNCTION = public.f);

--- evil, pg_catalog: operators of the catalog's types
CREATE SCHEMA IF NOT EXISTS evil;
CREATE FUNCTION evil.f(oid, oid) RETURNS boolean $BODY
CREATE OPERATOR evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = evil.f);
CREATE FUNCTION evil.f(name, name) RETURNS boolean $BODY
CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.f);
CREATE OPERATOR evil.<> (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.f);

--- evil, pg_catalog: a type named as PostgreSQL's own
CREATE SCHEMA IF NOT EXISTS evil; CREATE TYPE evil.text AS (x pg_catalog.text);
CREATE DOMAIN evil.oid AS pg_catalog.oid CHECK (false);
CREATE DOMAIN evil.regclass AS pg_catalog.regclass CHECK (false);
CREATE FUNCTION evil.f(evil.text) RETURNS pg_catalog.text $BODY
CREATE CAST (evil.text AS pg_catalog.text) WITH FUNCTION evil.f(evil.text);

--- evil, pg_catalog: a view named as a catalog, of which the path knows first
CREATE SCHEMA IF NOT EXISTS evil; CREATE FUNCTION evil.f() RETURNS boolean $BODY
CREATE VIEW evil.pg_class AS SELECT * FROM pg_catalog.pg_class WHERE evil.f();
CREATE VIEW evil.pg_settings AS SELECT * FROM pg_catalog.pg_settings WHERE evil.f();
CREATE VIEW evil.pg_type AS SELECT oid, typname FROM pg_catalog.pg_type WHERE evil.f();

--- public: a cast of an enum to text
CREATE TYPE public.mood AS ENUM ('sad', 'glad');
CREATE FUNCTION public.f(public.mood) RETURNS text $BODY
CREATE CAST (public.mood AS text) WITH FUNCTION public.f(public.mood);
ALTER TABLE person ADD COLUMN mood public.mood DEFAULT 'glad';

--- public: a cast of an array, of a composite type and of a range to text
CREATE TYPE public.pair AS (x integer, y text);
CREATE TYPE public.span AS RANGE (subtype = float8);
CREATE FUNCTION public.f(public.pair) RETURNS text $BODY
CREATE CAST (public.pair AS text) WITH FUNCTION public.f(public.pair) AS ASSIGNMENT;
CREATE FUNCTION public.f(public.pair[]) RETURNS text $BODY
CREATE CAST (public.pair[] AS text) WITH FUNCTION public.f(public.pair[]) AS ASSIGNMENT;
CREATE FUNCTION public.f(public.span) RETURNS text $BODY
CREATE CAST (public.span AS text) WITH FUNCTION public.f(public.span) AS ASSIGNMENT;
ALTER TABLE person ADD COLUMN pair public.pair DEFAULT '(1,x)',
  ADD COLUMN pairs public.pair[] DEFAULT ARRAY['(1,x)'::public.pair],
  ADD COLUMN span public.span DEFAULT '[1,2]';

--- public: a cast to json, which to_json calls
CREATE TYPE public.taste AS ENUM ('sour', 'sweet');
CREATE FUNCTION public.f(public.taste) RETURNS json $BODY
CREATE CAST (public.taste AS json) WITH FUNCTION public.f(public.taste);
ALTER TABLE person ADD COLUMN taste public.taste DEFAULT 'sweet';

--- public: an enum named int4 with a cast to a number
CREATE TYPE public.int4 AS ENUM ('1', '2');
CREATE FUNCTION public.f(public.int4) RETURNS bigint $BODY
CREATE CAST (public.int4 AS bigint) WITH FUNCTION public.f(public.int4);
CREATE FUNCTION public.g(public.int4) RETURNS numeric $BODY
CREATE CAST (public.int4 AS numeric) WITH FUNCTION public.g(public.int4);
ALTER TABLE person ADD COLUMN n public.int4 DEFAULT '1';

--- public: a domain whose CHECK calls a function
CREATE FUNCTION public.f(text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE DOMAIN public.word AS text CHECK (public.f(VALUE));
ALTER TABLE person ADD COLUMN word public.word DEFAULT 'x';
CREATE OR REPLACE FUNCTION public.f(text) RETURNS boolean $BODY

--- "$user", public: settings of the database that change what statements mean
ALTER DATABASE {database} SET standard_conforming_strings = off;
ALTER DATABASE {database} SET transform_null_equals = on;
ALTER DATABASE {database} SET quote_all_identifiers = on;
ALTER DATABASE {database} SET default_transaction_read_only = off;
ALTER DATABASE {database} SET default_transaction_isolation = serializable;
ALTER DATABASE {database} SET default_transaction_deferrable = on;
ALTER DATABASE {database} SET default_text_search_config = 'pg_catalog.german';
ALTER DATABASE {database} SET DateStyle = 'German';
ALTER DATABASE {database} SET statement_timeout = 40;
ALTER DATABASE {database} SET idle_in_transaction_session_timeout = 200;
ALTER DATABASE {database} SET client_encoding = 'LATIN1';

--- public: a collation, an index and statistics that call functions
CREATE COLLATION public."C" (locale = 'C');
CREATE FUNCTION public.f(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT 1';
CREATE INDEX ON person (public.f(age)) WHERE public.f(age) > 0;
CREATE OR REPLACE FUNCTION public.f(integer) RETURNS integer IMMUTABLE $BODY

--- public: a child of a table by inheritance, and a rule
CREATE FUNCTION public.f() RETURNS integer $BODY
CREATE TABLE public.grown (x integer) INHERITS (person);
CREATE VIEW public.seen AS SELECT public.f() AS x;
CREATE MATERIALIZED VIEW public.kept AS SELECT 1 AS x;
CREATE RULE r AS ON INSERT TO person DO ALSO SELECT public.f();
