-- Queries of a workload that only read, whatever the source holds beside; read by
-- test_workload_attacks.py. What is made, and the query.

--- an index on a column's function
CREATE INDEX i ON public.victim (public.calm(name))
-- query:
SELECT count(*) FROM victim
--- a CHECK of a column
ALTER TABLE public.victim ADD CHECK (name IS NULL OR n > 0)
-- query:
SELECT count(*) FROM victim WHERE n = 1
--- a generated column and a default
ALTER TABLE public.victim ADD m text DEFAULT public.act(), ADD g text GENERATED ALWAYS AS
  (public.calm(name)) STORED
-- query:
SELECT count(g), count(m) FROM victim
--- a column with a function's name
CREATE FUNCTION public.n(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1'
-- query:
SELECT v.n, v.name FROM victim v
--- a policy that does not hold for the role
ALTER TABLE public.victim ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON public.victim USING (public.act() IS NOT NULL)
-- query:
SELECT count(*) FROM victim
--- types, domains, collations and views of its own
CREATE TYPE public.kind AS ENUM ('a');
CREATE DOMAIN public.nat AS int CHECK (VALUE > 0);
CREATE COLLATION public.plain FROM "C";
CREATE TYPE public.pair AS (a nat, b kind);
CREATE TYPE public.span AS RANGE (subtype = float8);
CREATE VIEW public.v AS SELECT lower(name COLLATE public.plain) AS name, sum(n) OVER () FROM
  public.victim;
CREATE MATERIALIZED VIEW public.m AS SELECT public.act() AS stored
-- query:
SELECT 'a'::kind, 1::nat, ROW(1, 'a')::pair, '[1,2]'::span, stored FROM v, m ORDER BY name COLLATE
  plain
--- catalogs and sequences
CREATE SEQUENCE public.s
-- query:
SELECT count(*), max(last_value) FROM pg_catalog.pg_class, s, pg_stat_activity a,
  information_schema.tables t WHERE a.pid IS NOT NULL AND t.table_name <> ''
--- an operator, a cast and a view that go by allowed functions
CREATE OPERATOR public.==> (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same);
CREATE TYPE public.k AS ENUM ('a');
CREATE FUNCTION public.spell(public.k) RETURNS text LANGUAGE sql AS $$ SELECT 'k' $$;
CREATE CAST (public.k AS text) WITH FUNCTION public.spell(public.k) AS IMPLICIT;
CREATE VIEW public.v AS SELECT public.act()
-- query:
SELECT length('a'::k), 'a' ==> 'b', pg_sleep(0) FROM v
--- what tells of the server and the session
-- query:
SELECT current_setting('server_version'), current_setting('app.tenant', true), pg_backend_pid(),
  pg_total_relation_size('victim') + pg_table_size('victim') + pg_database_size(current_database()),
  to_regclass('public.victim'), has_table_privilege('victim', 'select'), format_type(23, NULL),
  obj_description('victim'::regclass), txid_current(), pg_is_in_recovery(), pg_current_wal_lsn(),
  pg_stat_get_numscans('victim'::regclass), inet_client_addr()
--- a setting
-- query:
SHOW work_mem
--- rows that would be locked
-- query:
SELECT count(*) FROM (SELECT name FROM victim v FOR UPDATE OF v NOWAIT) a, victim b
--- a plan
-- query:
EXPLAIN (ANALYZE, FORMAT json) SELECT count(*) FROM victim
--- functions in SQL that read
CREATE TYPE public.kind AS ENUM ('a', 'b');
CREATE FUNCTION public.low(i int) RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT 1; SELECT count(*) FROM victim WHERE n <= i $$;
CREATE FUNCTION public.tenant() RETURNS int LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ''
  AS $$ WITH w AS (SELECT current_setting('app.tenant', true)::int AS t) SELECT coalesce(t, 1) FROM w $$;
CREATE FUNCTION public.kinds(OUT k public.kind, OUT n int) RETURNS SETOF record LANGUAGE sql IMMUTABLE AS $$ SELECT 'a'::public.kind, 1 $$;
CREATE FUNCTION public.named() RETURNS SETOF public.victim LANGUAGE sql STABLE AS 'TABLE public.victim';
CREATE VIEW public.v AS SELECT public.low(n) AS low FROM public.victim;
ALTER TABLE public.victim ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.victim FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON public.victim USING (n >= public.tenant());
-- query:
SELECT low, k, x.name FROM v, kinds(), named() x WHERE low(1) = public.low(1) AND tenant() = 1
--- functions whose bodies are standard SQL
CREATE FUNCTION public.twice(i int) RETURNS bigint LANGUAGE sql RETURN i * (SELECT count(*) FROM public.victim);
CREATE FUNCTION public.last(i int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE WHEN i > 0 THEN public.twice(i) END::int; END;
-- query:
SELECT twice(n), last(n) FROM victim
--- PL/pgSQL that returns an expression
CREATE FUNCTION public.net(p numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$ begin return $1 * 1.2 + p; end; $$;
CREATE INDEX i ON public.victim (public.net(n));
CREATE VIEW public.v AS SELECT public.net(n) FROM public.victim
-- query:
SELECT net(1), v.* FROM v
--- aggregates of what the server has
CREATE AGGREGATE public.product(int) (SFUNC = pg_catalog.int4mul, STYPE = int, INITCOND = '1', COMBINEFUNC = pg_catalog.int4mul, PARALLEL = SAFE);
CREATE FUNCTION public.keep(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT coalesce($1, $2)';
CREATE AGGREGATE public.first_name(text) (SFUNC = public.keep, STYPE = text)
-- query:
SELECT product(n), first_name(name) FROM victim
--- a text that is a query
-- query:
SELECT word FROM ts_stat('select to_tsvector(name) from victim where current_setting(''a.b'', true) is null')
