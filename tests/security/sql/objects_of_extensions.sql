CREATE TABLE public.jobs (command text DEFAULT 'none'); INSERT INTO public.jobs VALUES ('secret');
CREATE VIEW public.seen AS SELECT 'truth'::text AS word; CREATE SEQUENCE public.ticket;
CREATE MATERIALIZED VIEW public.kept AS SELECT 1 AS x;
ALTER EXTENSION plpgsql ADD TABLE public.jobs; ALTER EXTENSION plpgsql ADD VIEW public.seen;
ALTER EXTENSION plpgsql ADD SEQUENCE public.ticket;
ALTER EXTENSION plpgsql ADD MATERIALIZED VIEW public.kept;
