-- Statements of a model's DDL that are left out, each under what is said of it; read by test_ddl.py.

--- selects nextval
CREATE VIEW public.v ("nextval") AS SELECT ('public.of_the_target'::regclass).nextval
--- selects nextval
CREATE VIEW public.v AS SELECT s."nextval" FROM COALESCE('o'::regclass) AS s(a), public.t AS t("nextval")
--- selects nextval
CREATE MATERIALIZED VIEW public.v AS SELECT nextval, (t.b::regclass).nextval FROM public.t WITH NO DATA
--- selects nextval
CREATE INDEX i ON public.t (("nextval"(b)), ((b::regclass)."nextval"))
--- selects nextval
CREATE POLICY p ON public.t USING ((b::regclass).nextval > nextval)
--- into privbench unfinished load
CREATE EXTENSION hstore WITH SCHEMA "privbench unfinished load"
--- ts_stat
CREATE MATERIALIZED VIEW public.m AS SELECT * FROM ts_stat('select lo_export(1, ''/tmp/x'')::text') WITH NO DATA
--- calls ts_rewrite
CREATE MATERIALIZED VIEW public.m AS SELECT ts_rewrite('a'::tsquery, 'select ...') WITH NO DATA
--- public.crosstab
CREATE MATERIALIZED VIEW public.m AS SELECT * FROM public.crosstab('select ...') AS (a int) WITH NO DATA
--- table_to_xml
CREATE MATERIALIZED VIEW public.m AS SELECT table_to_xml('pg_catalog.pg_authid', true, true, '') WITH NO DATA
--- reads pg_catalog.pg_authid
CREATE MATERIALIZED VIEW public.m AS SELECT rolpassword FROM pg_catalog.pg_authid WITH NO DATA
--- reads pg_authid
CREATE MATERIALIZED VIEW public.m AS SELECT rolpassword FROM pg_authid WITH NO DATA
--- reads public.of_the_target
CREATE MATERIALIZED VIEW public.m AS SELECT * FROM public.of_the_target WITH NO DATA
--- reads pg_authid
CREATE MATERIALIZED VIEW public.m AS SELECT a FROM (WITH pg_authid AS (SELECT 1 AS a) SELECT a FROM pg_authid) x, pg_authid WITH NO DATA
--- pg_read_file
CREATE MATERIALIZED VIEW public.m AS SELECT g.pg_read_file FROM unnest(ARRAY['/etc/passwd']) AS g WITH NO DATA
--- selects pg_ls_dir
CREATE MATERIALIZED VIEW public.m AS SELECT g.pg_ls_dir FROM (VALUES ('/etc')) AS x(pg_ls_dir), unnest(ARRAY['/']) g WITH NO DATA
--- selects pg_made_later
CREATE MATERIALIZED VIEW public.m AS SELECT g.pg_made_later FROM unnest(ARRAY['/']) g, (SELECT 1 AS pg_made_later) x WITH NO DATA
--- lo_import
CREATE MATERIALIZED VIEW public.m AS SELECT (row_to_json(g)).lo_import FROM generate_series(1, 2) g WITH NO DATA
--- operator public.<<<
CREATE MATERIALIZED VIEW public.m AS SELECT 1 ORDER BY 1 USING OPERATOR(public.<<<) WITH NO DATA
--- operator public.=
CREATE MATERIALIZED VIEW public.m AS SELECT 1 WHERE 1 OPERATOR(public.=) ANY (SELECT 1) WITH NO DATA
--- samples by public.evil
CREATE MATERIALIZED VIEW public.m AS SELECT a FROM public.t TABLESAMPLE public.evil(1) WITH NO DATA
--- LockingClause
CREATE MATERIALIZED VIEW public.m AS SELECT a FROM public.t FOR UPDATE WITH NO DATA
--- DeleteStmt
CREATE MATERIALIZED VIEW public.m AS WITH x AS (DELETE FROM public.t RETURNING a) SELECT a FROM x WITH NO DATA
--- InsertStmt
CREATE MATERIALIZED VIEW public.m AS WITH x AS (INSERT INTO public.t VALUES (1) RETURNING a) SELECT 1 WITH NO DATA
--- pg_sleep
CREATE MATERIALIZED VIEW public.m AS SELECT sum(a) FILTER (WHERE pg_sleep(9) IS NULL) FROM public.t WITH NO DATA
--- calls lo_unlink
CREATE MATERIALIZED VIEW public.m AS SELECT sum(a) OVER (ORDER BY lo_unlink(1)) FROM public.t WITH NO DATA
--- calls pg_ls_dir
CREATE MATERIALIZED VIEW public.m AS SELECT 1 FROM public.t, LATERAL pg_ls_dir(b) x WITH NO DATA
--- pg_ls_dir
CREATE MATERIALIZED VIEW public.m AS SELECT * FROM ROWS FROM (pg_ls_dir('/'), generate_series(1, 2)) x WITH NO DATA
--- calls pg_advisory_lock
CREATE MATERIALIZED VIEW public.m AS SELECT 1 LIMIT pg_advisory_lock(1)::text::int WITH NO DATA
--- calls lo_creat
CREATE MATERIALIZED VIEW public.m AS SELECT 1 GROUP BY GROUPING SETS ((lo_creat(1))) WITH NO DATA
--- calls pg_reload_conf
CREATE MATERIALIZED VIEW public.m AS VALUES (pg_reload_conf()) WITH NO DATA
--- pg_terminate_backend
CREATE MATERIALIZED VIEW public.m AS SELECT 1 UNION SELECT pg_terminate_backend(1)::int WITH NO DATA
--- database_to_xml
CREATE MATERIALIZED VIEW public.m AS SELECT xmlelement(name a, database_to_xml(true, true, '')) WITH NO DATA
--- calls query_to_xml
CREATE MATERIALIZED VIEW public.m AS SELECT x.a FROM XMLTABLE('/a' PASSING query_to_xml('select 1', true, true, '') COLUMNS a text) x WITH NO DATA
--- calls pg_read_file
CREATE MATERIALIZED VIEW public.m AS SELECT JSON_VALUE(pg_read_file('x')::jsonb, '$.a') WITH NO DATA
--- type public.of_the_target
CREATE MATERIALIZED VIEW public.m AS SELECT 'x'::public.of_the_target WITH NO DATA
--- calls public.evil
CREATE MATERIALIZED VIEW public.m AS SELECT 'x' LIKE 'y' ESCAPE public.evil() WITH NO DATA
--- collation public.evil
CREATE MATERIALIZED VIEW public.m AS SELECT x FROM generate_series(1, 2) x ORDER BY x COLLATE public.evil WITH NO DATA
--- ParamRef
CREATE MATERIALIZED VIEW public.m AS SELECT $1::int WITH NO DATA
--- calls pg_read_file
CREATE VIEW public.v AS SELECT pg_read_file('/etc/passwd')
--- sets the option evil
CREATE VIEW public.v WITH (evil = 1) AS SELECT 1
--- calls public.evil
CREATE INDEX i ON public.t (public.evil(b))
--- operator class public.evil_ops
CREATE INDEX i ON public.t (b public.evil_ops)
--- access method evil
CREATE INDEX i ON public.t USING evil (b)
--- calls dblink_exec
CREATE INDEX i ON public.t (a) WHERE dblink_exec('x') = b
--- public.of_the_target, which
CREATE INDEX i ON public.of_the_target (a)
--- calls pg_read_file
CREATE STATISTICS public.s ON (pg_read_file(b)), a FROM public.t
--- calls public.evil
CREATE POLICY p ON public.t USING (public.evil())
--- pg_catalog.pg_authid, which
CREATE POLICY p ON pg_catalog.pg_authid USING (true)
--- calls public.evil
ALTER TABLE public.t ADD CHECK (public.evil(a))
--- calls lo_import
ALTER TABLE public.t ALTER a SET DEFAULT lo_import('/etc/passwd')
--- public.&&
ALTER TABLE public.t ADD EXCLUDE USING gist (a WITH OPERATOR(public.&&))
--- pg_authid
ALTER TABLE public.t ADD FOREIGN KEY (a) REFERENCES pg_catalog.pg_authid
--- public.of_the_target
ALTER TABLE public.t ATTACH PARTITION public.of_the_target DEFAULT
--- sets the option evil
ALTER TABLE public.t SET (evil = 1)
--- pg_catalog.pg_authid, which
ALTER TABLE pg_catalog.pg_authid ENABLE ROW LEVEL SECURITY
--- pg_catalog.pg_shadow, which
ALTER VIEW pg_catalog.pg_shadow ALTER usename SET DEFAULT 'x'
--- none of the extensions
CREATE EXTENSION dblink WITH SCHEMA public
--- none of the extensions
CREATE EXTENSION plpython3u WITH SCHEMA public
--- puts an extension into pg_catalog
CREATE EXTENSION citext WITH SCHEMA pg_catalog
--- defines a function
CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'
--- function
CREATE OR REPLACE FUNCTION pg_catalog.lower(text) RETURNS text LANGUAGE sql AS ''
--- defines a function
CREATE PROCEDURE public.f() LANGUAGE sql AS ''
--- defines an aggregate
CREATE AGGREGATE public.f(int) (sfunc = int4pl, stype = int)
--- an operator
CREATE OPERATOR public.=== (leftarg = int, rightarg = int, procedure = f)
--- defines a cast
CREATE CAST (int AS text) WITH FUNCTION f(int) AS IMPLICIT
--- class
CREATE OPERATOR CLASS public.c DEFAULT FOR TYPE int USING btree AS OPERATOR 1 <
--- a base type
CREATE TYPE public.evil (INPUT = array_in, OUTPUT = array_out)
--- a language
CREATE LANGUAGE evil HANDLER f
--- an access method
CREATE ACCESS METHOD evil TYPE INDEX HANDLER f
--- a trigger
CREATE TRIGGER g BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION f()
--- a rule
CREATE RULE r AS ON INSERT TO public.t DO ALSO NOTIFY x
--- switches a trigger
ALTER TABLE public.t ENABLE ALWAYS TRIGGER g
--- a text search template
CREATE TEXT SEARCH TEMPLATE public.x (lexize = f)
--- template public.evil
CREATE TEXT SEARCH DICTIONARY public.d (TEMPLATE = public.evil)
--- CREATE PROPERTY GRAPH public.g VERTEX TABLES: it cannot be read (syntax error at or near "PROPERTY"
CREATE PROPERTY GRAPH public.g VERTEX TABLES (public.t KEY (a))
--- CREATE VIEW public.v AS SELECT a, count: it cannot be read
CREATE VIEW public.v AS SELECT a, count(*) FROM public.t GROUP BY ALL
--- CREATE VIEW public.v AS SELECT first_value: it cannot be read
CREATE VIEW public.v AS SELECT first_value(a) IGNORE NULLS OVER (ORDER BY b) FROM public.t
--- CREATE VIEW public.v AS SELECT * FROM GRAPH_TABLE: it cannot be read
CREATE VIEW public.v AS SELECT * FROM GRAPH_TABLE (public.g MATCH (x) COLUMNS (x.a))
--- CREATE FUNCTION public.f: it cannot be read
CREATE FUNCTION public.f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 1 FROM GRAPH_TABLE (public.g MATCH (x) COLUMNS (x.a)); TABLE public.t; END
--- ALTER VIEW public.v SET SOMETHING NEW: it cannot be read
ALTER VIEW public.v SET SOMETHING NEW
--- CREATE POLICY p ON public.t USING: it cannot be read
CREATE POLICY p ON public.t USING (EXISTS (SELECT b FROM public.t GROUP BY ALL)); -- and no more
