-- Views and indexes upon a view that the parser cannot read; read by test_ddl.py.

--- views
CREATE VIEW "A b"."v.1" AS SELECT a FROM public.t GROUP BY ALL;
CREATE MATERIALIZED VIEW public.w AS SELECT a FROM "A b"."v.1" WITH NO DATA;
CREATE VIEW public.x AS SELECT 1 FROM public.w;
CREATE VIEW public.v AS SELECT a AS "v.1" FROM public.t;

--- kept
CREATE VIEW public.v AS SELECT a AS "v.1" FROM public.t;

--- indexes
CREATE INDEX i ON public.w USING btree (a);
CREATE INDEX i ON public.t USING btree (a);

--- left out by the list, and what stands on it
CREATE VIEW public.v AS SELECT pg_read_file('x') AS a;
CREATE VIEW public.w AS SELECT a FROM public.v;
CREATE FUNCTION public.lower(text) RETURNS text LANGUAGE sql AS '';
CREATE INDEX i ON public.t (public.lower(b));
ALTER INDEX public.i ATTACH PARTITION public.i

--- of a dump
CREATE TABLE public.t (a int CONSTRAINT positive CHECK (a > 0));
CREATE VIEW public.v AS SELECT NULL::int AS a;
CREATE OR REPLACE VIEW public.v AS SELECT a FROM public.t;
ALTER TABLE public.t ADD CONSTRAINT t_key UNIQUE (a);
ALTER INDEX public.t_key ATTACH PARTITION public.t_key
