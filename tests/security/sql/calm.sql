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
