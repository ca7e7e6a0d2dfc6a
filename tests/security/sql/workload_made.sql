What makes an attack possible in the source.

--- an operator that may sort for an aggregate
CREATE FUNCTION public.below(int, int) RETURNS boolean LANGUAGE plpgsql AS
  'BEGIN PERFORM public.act(); RETURN $1 < $2; END';
CREATE OPERATOR public.<<< (LEFTARG = int, RIGHTARG = int, FUNCTION = public.below);
CREATE AGGREGATE public.first_of(int) (SFUNC = pg_catalog.int4smaller, STYPE = int,
  SORTOP = OPERATOR(public.<<<))

--- other names of nextval
CREATE SEQUENCE public.s;
CREATE OPERATOR public.!+ (RIGHTARG = regclass, FUNCTION = pg_catalog.nextval);
CREATE AGGREGATE public.final(oid) (SFUNC = pg_catalog.oidlarger, STYPE = oid,
  FINALFUNC = pg_catalog.nextval);
CREATE FUNCTION public.advance() RETURNS bigint LANGUAGE sql AS $$ SELECT nextval('s') $$

--- functions of a row and of a value
CREATE SEQUENCE public.s;
CREATE FUNCTION public.rows_of(v public.victim) RETURNS text LANGUAGE plpgsql IMMUTABLE
  AS $$ BEGIN RETURN public.act(); END $$;
CREATE FUNCTION public.value_of(v text) RETURNS text LANGUAGE plpgsql IMMUTABLE
  AS $$ BEGIN RETURN public.act(); END $$

--- a foreign part
CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE public.host (name text, n int) INHERITS (public.victim)
  SERVER files OPTIONS (program 'echo a')
