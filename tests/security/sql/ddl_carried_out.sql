-- What of the attacks by materialised views a server with dblink and tablefunc would carry out, each
-- under its view; {} is what is run in the end. Read by test_ddl.py.

--- m1
CREATE MATERIALIZED VIEW public.m1 AS SELECT * FROM
  ts_stat($$select to_tsvector(public.dblink_exec('dbname=' || current_database(), '{}'))$$)
  WITH NO DATA
--- m2
CREATE MATERIALIZED VIEW public.m2 AS SELECT * FROM public.crosstab($$select 'a'::text,
  'b'::text, public.dblink_exec('dbname=' || current_database(), '{}')$$) AS (x text, y text)
  WITH NO DATA
--- m3
CREATE MATERIALIZED VIEW public.m3 AS SELECT
  public.U&"\0064blink_exec"('dbname=' || current_database(), '{}') WITH NO DATA
