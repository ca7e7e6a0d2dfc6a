-- Code of the source's users that ran in a query of a workload though the query does not name it:
-- what a clause stands for, and what the planner and functions written in SQL put in its place.

--- NOT BETWEEN compares by < and >
-- refused: operator public.<, which runs public.lower_than
CREATE FUNCTION public.lower_than(int, text) RETURNS boolean LANGUAGE sql AS 'SELECT public.act() IS NOT NULL';
CREATE FUNCTION public.higher(int, text) RETURNS boolean LANGUAGE sql AS 'SELECT public.act() IS NOT NULL';
CREATE OPERATOR public.< (LEFTARG = int, RIGHTARG = text, FUNCTION = public.lower_than);
CREATE OPERATOR public.> (LEFTARG = int, RIGHTARG = text, FUNCTION = public.higher);
-- query:
SELECT count(*) FROM victim WHERE n NOT BETWEEN name AND name

--- the planner takes the negator
-- refused: operator public.===, which runs public.other
CREATE FUNCTION public.other(int, int) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT public.act() IS NOT NULL';
CREATE OPERATOR public.!== (LEFTARG = int, RIGHTARG = int, FUNCTION = public.other);
SET search_path = public;
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = pg_catalog.int4eq, NEGATOR = !==);
-- query:
SELECT count(*) FROM victim WHERE NOT (n === 1)

--- a word of a later server
-- refused: public.json_value, a function that is not listed
-- needs: SELECT 1 / (current_setting('server_version_num')::int < 170000)::int
CREATE FUNCTION public.json_value(jsonb, text) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
-- query:
SELECT json_value('1'::jsonb, 'b')

--- a name in the text of an extension's function
-- refused: ext.earth_distance, a function that is not listed: it may call public.sec_to_gc
-- extension: earthdistance CASCADE
-- needs: SELECT 1 / (current_setting('server_version_num')::int < 160000)::int
CREATE SCHEMA ext;
ALTER EXTENSION earthdistance SET SCHEMA ext;
CREATE FUNCTION public.sec_to_gc(float8) RETURNS float8 LANGUAGE sql AS 'SELECT length(public.act())::float8';
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, ext', current_database()); END $$;
-- query:
SELECT earth_distance(ll_to_earth(1, 1), ll_to_earth(2, 2))

--- an index's condition is computed again
-- refused: the index i of public.big is not allowed: it may call public.quiet
CREATE TABLE public.big AS SELECT i % 2 AS n, i / 1000 AS m, 'a'::text AS name
  FROM generate_series(1, 20000) i;
CREATE FUNCTION public.quiet(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN RETURN t; END $$;
CREATE INDEX i ON public.big USING brin (m) WITH (pages_per_range = 1) WHERE (n > 0 OR public.quiet(name) = 'x');
ANALYZE public.big;
CREATE OR REPLACE FUNCTION public.quiet(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN RETURN public.act(); END $$;
-- query:
SELECT count(*) FROM big WHERE n > 0 AND m = 5

--- the planner computes an argument's default
-- refused: the index i of public.victim is not allowed: it may call public.two
CREATE FUNCTION public.quiet(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN RETURN t; END $$;
CREATE FUNCTION public.two(t text, u text DEFAULT public.quiet('x')) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN t; END $$;
CREATE INDEX i ON public.victim (public.two(name));
CREATE OR REPLACE FUNCTION public.quiet(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN RETURN public.act(); END $$;
-- query:
SELECT count(*) FROM victim

--- a function of a function of nothing
-- refused: the index i of public.victim is not allowed: it may call public.quiet
CREATE FUNCTION public.quiet(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN RETURN t; END $$;
CREATE INDEX i ON public.victim (public.quiet(textcat(name, NULL)));
CREATE OR REPLACE FUNCTION public.quiet(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
  $$ BEGIN RETURN public.act(); END $$;
-- query:
SELECT count(*) FROM victim

--- SQL whose settings change how it is read
-- refused: public.odd, a function that is not listed
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql SET standard_conforming_strings = off AS $f$ SELECT '\' || ' || public.act() || ' --' $f$;
-- query:
SELECT public.odd()

--- SQL with a default
-- refused: public.odd, a function that is not listed
CREATE FUNCTION public.odd(t text DEFAULT public.act()) RETURNS text LANGUAGE sql AS 'SELECT $1';
-- query:
SELECT public.odd()

--- SQL whose result is a domain's
-- refused: public.odd, a function that is not listed
CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));
CREATE FUNCTION public.odd() RETURNS public.trap LANGUAGE sql AS $$ SELECT 'x' $$;
-- query:
SELECT public.odd()
