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

--- SQL that reads a table and calls what is volatile
-- refused: public.odd, a function that is not listed: it may call public.act
CREATE FUNCTION public.odd() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT count(*) FROM public.victim WHERE public.act() IS NOT NULL $$;
-- query:
SELECT public.odd()

--- SQL that reads a view
-- refused: public.odd, a function that is not listed: the view public.v is not allowed: it may call public.act
CREATE VIEW public.v AS SELECT public.act() AS a;
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql STABLE AS 'SELECT a FROM public.v';
-- query:
SELECT public.odd()

--- SQL whose search path leads to a view
-- refused: public.odd, a function that is not listed: the view evil.victim is not allowed
CREATE SCHEMA evil;
CREATE VIEW evil.victim AS SELECT public.act() AS name;
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql STABLE SET search_path = evil AS 'SELECT name FROM victim LIMIT 1';
-- query:
SELECT public.odd()

--- SQL whose search path puts a schema before the server's
-- refused: public.odd, a function that is not listed: it may call evil.upper
CREATE SCHEMA evil;
CREATE FUNCTION evil.upper(text) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql STABLE SET search_path = evil, pg_catalog AS $$ SELECT upper('a') $$;
-- query:
SELECT public.odd()

--- SQL that hides a view behind the name of a query
-- refused: public.odd, a function that is not listed: the view public.w is not allowed
CREATE VIEW public.w AS SELECT public.act() AS a;
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql STABLE AS $$ SELECT w.a FROM (WITH w AS (SELECT 1) SELECT * FROM w) AS b, w $$;
-- query:
SELECT public.odd()

--- SQL of two statements
-- refused: public.odd, a function that is not listed: it may call public.act
CREATE FUNCTION public.odd() RETURNS int LANGUAGE sql AS 'SELECT public.act(); SELECT 1';
-- query:
SELECT public.odd()

--- SQL by SQL
-- refused: public.outer_one, a function that is not listed: it may call public.odd, a function that is not listed: it may call public.act
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql STABLE AS 'SELECT public.act()';
CREATE FUNCTION public.outer_one() RETURNS text LANGUAGE sql STABLE AS 'SELECT public.odd()';
-- query:
SELECT public.outer_one()

--- SQL that hides itself in a circle
-- refused: public.odd, a function that is not listed
CREATE FUNCTION public.even(i int) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
CREATE FUNCTION public.odd(i int) RETURNS text LANGUAGE sql AS 'SELECT CASE WHEN i > 0 THEN public.even(i - 1) ELSE public.act() END';
CREATE OR REPLACE FUNCTION public.even(i int) RETURNS text LANGUAGE sql AS 'SELECT public.odd(i - 1)';
-- query:
SELECT public.even(1), public.odd(1)

--- SQL with a name that an earlier server calls
-- refused: public.odd, a function that is not listed: it may call public.json_value
-- needs: SELECT 1 / (current_setting('server_version_num')::int < 170000)::int
CREATE FUNCTION public.json_value(jsonb, text) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql AS $$ SELECT json_value('1'::jsonb, 'b') $$;
-- query:
SELECT public.odd()

--- SQL that returns a domain's value in an OUT parameter
-- refused: public.odd, a function that is not listed: the domain public.trap is not allowed
CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));
CREATE FUNCTION public.odd(OUT a public.trap, OUT b int) LANGUAGE sql AS $$ SELECT 'x', 1 $$;
-- query:
SELECT public.odd()

--- SQL that returns a table of a domain's values
-- refused: public.odd, a function that is not listed: the domain public.trap is not allowed
CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));
CREATE FUNCTION public.odd() RETURNS TABLE (a public.trap, b int) LANGUAGE sql STABLE AS $$ SELECT 'x', 1 $$;
-- query:
SELECT * FROM public.odd()

--- a body of standard SQL
-- refused: public.odd, a function that is not listed: it may call public.act
-- needs: SELECT 1 / (current_setting('server_version_num')::int >= 140000)::int
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql RETURN public.act();
-- query:
SELECT public.odd()

--- a body of standard SQL in several statements
-- refused: public.odd, a function that is not listed: the view public.v is not allowed
-- needs: SELECT 1 / (current_setting('server_version_num')::int >= 140000)::int
CREATE VIEW public.v AS SELECT public.act() AS a;
CREATE FUNCTION public.odd() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT a FROM public.v; SELECT 1; END;
-- query:
SELECT public.odd()

--- SQL that sets
-- refused: public.odd, a function that is not listed: it calls set_config
-- it writes nothing
CREATE FUNCTION public.odd() RETURNS text LANGUAGE sql STABLE AS $$ SELECT set_config('app.tenant', '1', false) $$;
-- query:
SELECT public.odd()

--- a policy that asks SQL
-- refused: the policy p of public.victim is not allowed: it may call public.tenant, a function that is not listed: it may call public.act
CREATE ROLE {role};
GRANT ALL ON public.victim TO {role};
GRANT pg_write_server_files TO {role};
CREATE FUNCTION public.tenant() RETURNS text LANGUAGE sql STABLE AS 'SELECT public.act()';
ALTER TABLE public.victim ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON public.victim USING (public.tenant() IS NOT NULL);
CREATE VIEW public.v AS SELECT * FROM public.victim;
ALTER VIEW public.v OWNER TO {role};
-- query:
SELECT * FROM v

--- an operator whose SQL reads a table
-- refused: operator public.>>>, which runs public.many
-- it writes nothing
CREATE FUNCTION public.many(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT count(*) > $1 + $2 FROM public.victim';
CREATE OPERATOR public.>>> (LEFTARG = int, RIGHTARG = int, FUNCTION = public.many);
-- query:
SELECT 1 >>> 2

--- an operator that goes by PL/pgSQL
-- refused: operator public.>>>, which runs public.less
-- it writes nothing
CREATE FUNCTION public.less(a int, b int) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN a < b; END';
CREATE OPERATOR public.>>> (LEFTARG = int, RIGHTARG = int, FUNCTION = public.less);
-- query:
SELECT 1 >>> 2

--- PL/pgSQL that returns what writes
-- refused: public.odd, a function that is not listed: it may call public.act
CREATE FUNCTION public.odd() RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN public.act(); END';
-- query:
SELECT public.odd()

--- PL/pgSQL that returns from a view
-- refused: public.odd, a function that is not listed: the view public.v is not allowed
CREATE VIEW public.v AS SELECT public.act() AS a;
CREATE FUNCTION public.odd() RETURNS text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN a FROM v; END';
-- query:
SELECT public.odd()

--- PL/pgSQL that declares
-- refused: public.odd, a function that is not listed: it is more than one RETURN
CREATE FUNCTION public.odd() RETURNS text LANGUAGE plpgsql STABLE AS 'DECLARE t text := public.act(); BEGIN RETURN t; END';
-- query:
SELECT public.odd()

--- PL/pgSQL that returns a query
-- refused: public.odd, a function that is not listed: it is more than one RETURN
CREATE FUNCTION public.odd() RETURNS SETOF text LANGUAGE plpgsql STABLE AS 'BEGIN RETURN QUERY SELECT public.act(); END';
-- query:
SELECT public.odd()

--- PL/pgSQL that returns a text's query
-- refused: public.odd, a function that is not listed: it is more than one RETURN
CREATE FUNCTION public.odd() RETURNS SETOF text LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY EXECUTE 'SELECT public.act()'; END $$;
-- query:
SELECT public.odd()

--- PL/pgSQL that handles an error
-- refused: public.odd, a function that is not listed: it is more than one RETURN
CREATE FUNCTION public.odd() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 1 / 0; EXCEPTION WHEN OTHERS THEN RETURN public.act(); END $$;
-- query:
SELECT public.odd()

--- PL/pgSQL behind a comment
-- refused: public.odd, a function that is not listed: it may call public.act
CREATE FUNCTION public.odd() RETURNS text LANGUAGE plpgsql AS $$ /* */ BEGIN RETURN /* 'x'; -- */ public.act() -- ;
; END; -- $$;
-- query:
SELECT public.odd()

--- an aggregate's final function
-- refused: public.total, a function that is not listed: it runs public.done, which is not listed
CREATE FUNCTION public.done(int) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
CREATE AGGREGATE public.total(int) (SFUNC = pg_catalog.int4pl, STYPE = int, INITCOND = '0', FINALFUNC = public.done);
-- query:
SELECT public.total(n) FROM victim

--- an aggregate that reads a file
-- refused: public.total, a function that is not listed: it runs pg_catalog.pg_read_file
-- it writes nothing
CREATE AGGREGATE public.total(text) (SFUNC = pg_catalog.text_larger, STYPE = text, FINALFUNC = pg_catalog.pg_read_file);
-- query:
SELECT public.total('/etc/hostname')

--- an aggregate's inverse in a window
-- refused: public.total, a function that is not listed: it runs public.back
CREATE FUNCTION public.back(int, int) RETURNS int STRICT LANGUAGE plpgsql AS 'BEGIN PERFORM public.act(); RETURN $1 - $2; END';
CREATE AGGREGATE public.total(int) (SFUNC = pg_catalog.int4pl, STYPE = int, INITCOND = '0',
  MSFUNC = pg_catalog.int4pl, MSTYPE = int, MINITCOND = '0', MINVFUNC = public.back);
-- query:
SELECT public.total(n) OVER (ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM victim

--- an aggregate's functions for several processes
-- refused: public.total, a function that is not listed: it runs public.both
-- it writes nothing
CREATE FUNCTION public.both(int, int) RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN PERFORM public.act(); RETURN $1 + $2; END';
CREATE AGGREGATE public.total(int) (SFUNC = pg_catalog.int4pl, STYPE = int, INITCOND = '0', COMBINEFUNC = public.both, PARALLEL = SAFE);
-- query:
SELECT public.total(n) FROM victim

--- a function that tells of the server, under another's name
-- refused: public.current_setting, a function that is not listed
CREATE FUNCTION public.current_setting(text, int) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
-- query:
SELECT current_setting('a', 1)

--- rows that are locked by what writes
-- refused: public.act, a function
-- query:
SELECT name FROM victim WHERE public.act() = 'x' FOR NO KEY UPDATE OF victim SKIP LOCKED

--- a plan that is carried out
-- refused: public.act, a function
-- query:
EXPLAIN (ANALYZE, VERBOSE off) SELECT public.act()

--- a plan of what stands in parentheses
-- refused: public.act, a function
-- query:
EXPLAIN (((SELECT public.act())))

--- a text that is made
-- refused: it calls ts_stat
-- query:
SELECT * FROM ts_stat('select to_tsvector(' || 'public.act())')

--- a text of a good and one of a bad call
-- refused: it calls ts_stat
-- query:
SELECT * FROM ts_stat('select to_tsvector(name) from victim') a, ts_stat('select to_tsvector(public.act())') b

--- a text in a text
-- refused: it calls ts_stat
-- query:
SELECT * FROM ts_stat('select to_tsvector(word) from ts_stat(''select to_tsvector(public.act())'')')

--- a text that a view runs
-- refused: the view public.v is not allowed: it calls ts_stat
CREATE VIEW public.v AS SELECT * FROM ts_stat('select to_tsvector(public.act())');
-- query:
SELECT * FROM v

--- a second text
-- refused: public.crosstab, a function of the extension tablefunc
-- extension: tablefunc
-- query:
SELECT * FROM crosstab('select name, name, n from victim order by 1, 2', 'select public.act() union select ''b''') AS c(a text, b int, c int)
