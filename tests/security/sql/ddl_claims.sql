-- Statements that reach what the target's extensions hold, under names that seem to be made here:
-- by the name of a constraint, IF NOT EXISTS or OR REPLACE. Read by test_ddl.py.

--- a CHECK, and a view that copies the rows
CREATE TABLE public.x (i int CONSTRAINT jobs CHECK (i > 0));
CREATE MATERIALIZED VIEW public.stolen AS SELECT command FROM public.jobs WITH NO DATA
--- a CHECK, and an index
CREATE TABLE public.x (i int CONSTRAINT jobs CHECK (i > 0));
CREATE INDEX jobs_i ON public.jobs (command)
--- a CHECK, and row-level security
CREATE TABLE public.x (i int CONSTRAINT jobs CHECK (i > 0));
ALTER TABLE public.jobs ENABLE ROW LEVEL SECURITY
--- a foreign key, and a default
CREATE TABLE public.x (i int PRIMARY KEY, j int CONSTRAINT jobs REFERENCES public.x);
ALTER TABLE public.jobs ALTER command SET DEFAULT 'evil'
--- a CHECK, and a view in the place of theirs
CREATE TABLE public.x (i int CONSTRAINT seen CHECK (i > 0));
CREATE OR REPLACE VIEW public.seen AS SELECT 'lie'::text AS word
--- a view in the place of theirs
CREATE OR REPLACE VIEW public.seen AS SELECT 'lie'::text AS word
--- a table that is there already
CREATE TABLE IF NOT EXISTS public.jobs (command text);
ALTER TABLE public.jobs ALTER command SET DEFAULT 'evil'
--- a sequence that is there already
CREATE SEQUENCE IF NOT EXISTS public.ticket; ALTER SEQUENCE public.ticket INCREMENT 99
--- a materialised view that is there already
CREATE MATERIALIZED VIEW IF NOT EXISTS public.kept AS SELECT 1 AS x WITH NO DATA;
CREATE INDEX kept_i ON public.kept (x)
