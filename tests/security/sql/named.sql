-- Queries of a workload that a stranger wrote, each an attack; read by test_workload_attacks.py.
-- What the refusal says, what the server needs for it, what makes it possible in the source, and
-- the query. It writes a file by `public.act`, unless it says that it writes nothing. Signs that
-- editors do not show are written as \u and four digits.

--- ts_stat
-- refused: it calls ts_stat
-- query:
SELECT * FROM ts_stat('select to_tsvector(public.act())')

--- query_to_xml
-- refused: it calls query_to_xml
-- query:
SELECT query_to_xml('select public.act()', true, false, '')

--- ts_rewrite
-- refused: it calls ts_rewrite
-- query:
SELECT ts_rewrite('a'::tsquery, 'select ''a''::tsquery, plainto_tsquery(public.act()) where now() is not null')

--- dblink by ts_stat
-- refused: it calls ts_stat
-- extension: dblink
-- it writes nothing
-- query:
SELECT * FROM ts_stat($q$select to_tsvector(dblink_exec('host=' || current_setting('unix_socket_directories') || ' dbname=' || current_database(), 'delete from victim'))$q$)

--- crosstab
-- refused: public.crosstab, a function of the extension tablefunc
-- extension: tablefunc
-- query:
SELECT * FROM crosstab('select public.act(), ''b'', ''c''') AS c(a text, b text)

--- escaped name
-- refused: public.dblink_exec, a function of the extension dblink
-- extension: dblink
-- it writes nothing
-- query:
SELECT U&"\0064blink_exec"('host=' || current_setting('unix_socket_directories') || ' dbname=' || current_database(), 'delete from victim')

--- escaped name with a character of its own
-- refused: it calls pg_read_file
-- it writes nothing
-- query:
SELECT U&"pg!005Fread_file" UESCAPE '!' ('/etc/hostname')

--- no-break space
-- refused: public.act, a function
-- query:
SELECT 1 \u00a0$$ , (SELECT public.act()) AS b --$$

--- next line
-- refused: public.act, a function
-- query:
SELECT 1 \u0085$$ , (SELECT public.act()) AS b --$$

--- line separator
-- refused: public.act, a function
-- query:
SELECT 1 --\u2028 + 1
, public.act()

--- nested comment
-- refused: public.act, a function
-- query:
SELECT /* /* */ 1 -- */ public.act()

--- field that is a call
-- refused: it selects pg_read_file
-- it writes nothing
-- query:
SELECT ('/etc/hostname'::text).pg_read_file

--- field of a function's row
-- refused: it selects pg_read_file
-- it writes nothing
-- query:
SELECT g.pg_read_file FROM unnest(ARRAY['/etc/hostname']) g

--- field that is a user's function
-- refused: public.secret, a function
CREATE FUNCTION public.secret(victim) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
-- query:
SELECT v.secret FROM victim v

--- field that is a cast
-- refused: the domain public.trap is not allowed
CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));
-- query:
SELECT ('a'::text).trap

--- a user's function
-- refused: public.act, a function
-- query:
SELECT public.act()

--- lateral
-- refused: public.act, a function
-- query:
SELECT * FROM victim v, LATERAL public.act() a

--- rows from
-- refused: public.act, a function
-- query:
SELECT * FROM ROWS FROM (generate_series(1, 2), public.act()) AS r(a, b)

--- values
-- refused: public.act, a function
-- query:
VALUES (1, public.act())

--- limit
-- refused: public.act, a function
-- query:
TABLE victim LIMIT length(public.act())

--- recursive
-- refused: public.act, a function
-- query:
WITH RECURSIVE w(i, t) AS (SELECT 1, 'x' UNION ALL SELECT i + 1, public.act() FROM w WHERE i < 2) SELECT * FROM w

--- filter of a window
-- refused: public.act, a function
-- query:
SELECT count(*) FILTER (WHERE public.act() = 'x') OVER (ORDER BY n) FROM victim

--- a sample's share
-- refused: public.act, a function
-- query:
SELECT * FROM victim TABLESAMPLE bernoulli (100 * length(public.act()))

--- xmltable
-- refused: public.act, a function
-- needs: SELECT '<a/>'::xml
-- query:
SELECT * FROM XMLTABLE('/a' PASSING XMLPARSE(DOCUMENT '<a>' || public.act() || '</a>') COLUMNS b text PATH '.')

--- json_table
-- refused: public.act, a function
-- needs: SELECT JSON_VALUE('[1]'::jsonb, '$[0]')
-- query:
SELECT * FROM JSON_TABLE('[1]'::jsonb, '$[*]' PASSING public.act() AS x COLUMNS (b int PATH '$'))

--- name of a listed function
-- refused: public.upper, a function
CREATE FUNCTION public.upper(text, int) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
-- query:
SELECT upper(name, n) FROM victim

--- aggregate
-- refused: public.total, a function
CREATE FUNCTION public.step(text, text) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
CREATE AGGREGATE public.total(text) (SFUNC = public.step, STYPE = text);
-- query:
SELECT public.total(name) FROM victim

--- a user's function as an extension's
-- refused: public.akeys, a function
-- extension: hstore
CREATE ROLE {role};
CREATE FUNCTION public.akeys(int) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
ALTER FUNCTION public.akeys(int) OWNER TO {role};
ALTER EXTENSION hstore ADD FUNCTION public.akeys(int);
-- query:
SELECT public.akeys(1)

--- range
-- refused: the type public.r runs public.gap
-- it writes nothing
CREATE FUNCTION public.gap(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 0; END';
CREATE TYPE public.r AS RANGE (subtype = float8, subtype_diff = public.gap);
-- query:
SELECT r(1, 2)

--- operator
-- refused: operator public.==>, which runs public.same
CREATE OPERATOR public.==> (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same);
-- query:
SELECT 'a'::text ==> 'b'::text

--- operator of a server's function
-- refused: operator public.!!!, which runs pg_catalog.pg_read_file
-- it writes nothing
CREATE OPERATOR public.!!! (RIGHTARG = text, FUNCTION = pg_catalog.pg_read_file);
-- query:
SELECT !!! '/etc/hostname'

--- better operator
-- refused: operator public.=, which runs public.equal
CREATE FUNCTION public.equal(int, text) RETURNS boolean LANGUAGE sql AS 'SELECT public.act() IS NOT NULL';
CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = text, FUNCTION = public.equal);
-- query:
SELECT count(*) FROM victim WHERE n = name

--- operator that is not written
-- refused: operator public.=, which runs public.equal
CREATE FUNCTION public.equal(int, text) RETURNS boolean LANGUAGE sql AS 'SELECT public.act() IS NOT NULL';
CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = text, FUNCTION = public.equal);
-- query:
SELECT CASE n WHEN 'a'::text THEN 1 END FROM victim

--- cast that is not written
-- refused: the cast from public.kind to text, which runs public.spell
CREATE TYPE public.kind AS ENUM ('a');
CREATE FUNCTION public.spell(public.kind) RETURNS text LANGUAGE sql AS 'SELECT public.act()';
CREATE CAST (public.kind AS text) WITH FUNCTION public.spell(public.kind) AS IMPLICIT;
CREATE TABLE public.kinds AS SELECT 'a'::public.kind AS kind;
-- query:
SELECT length(kind) FROM kinds

--- domain
-- refused: the domain public.trap is not allowed: it may call public.sure
CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));
-- query:
SELECT 'a'::trap

--- domain named like a listed function
-- refused: the domain public.lower is not allowed
CREATE DOMAIN public.lower AS text CHECK (public.sure(VALUE));
-- query:
SELECT lower(5)

--- domain in a row
-- refused: the domain public.trap is not allowed
CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));
CREATE TYPE public.pair AS (t public.trap);
-- query:
SELECT ROW('a')::pair

--- domain that is not named
-- refused: the domain public.trap is not allowed
CREATE DOMAIN public.trap AS text CHECK (public.sure(VALUE));
CREATE TABLE public.traps (t public.trap);
-- query:
SELECT array_append(array_agg(t), 'b') FROM traps

--- view
-- refused: the view public.outer_view is not allowed: the view public.inner_view is not allowed: it may call public.act
CREATE VIEW public.inner_view AS SELECT public.act();
CREATE VIEW public.outer_view AS SELECT * FROM public.inner_view;
-- query:
SELECT * FROM outer_view

--- view under a query's name
-- refused: the view public.w is not allowed
CREATE VIEW public.w AS SELECT public.act();
-- query:
SELECT * FROM (WITH w AS (SELECT 1) SELECT * FROM w) AS a, w

--- view with a server's function
-- refused: the view public.v is not allowed: it calls pg_read_file
-- it writes nothing
CREATE VIEW public.v AS SELECT pg_read_file('/etc/hostname');
-- query:
SELECT * FROM v

--- view whose operator is not written
-- refused: operator public.=, which runs public.equal
CREATE FUNCTION public.equal(int, text) RETURNS boolean LANGUAGE sql AS 'SELECT public.act() IS NOT NULL';
CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = text, FUNCTION = public.equal);
CREATE VIEW public.v AS SELECT NULLIF(n, name) FROM public.victim;
-- query:
SELECT * FROM v

--- policy
-- refused: the policy p of public.victim is not allowed
CREATE ROLE {role};
GRANT ALL ON public.victim TO {role};
GRANT pg_write_server_files TO {role};
ALTER TABLE public.victim ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON public.victim USING (public.act() IS NOT NULL);
CREATE VIEW public.v AS SELECT * FROM public.victim;
ALTER VIEW public.v OWNER TO {role};
-- query:
SELECT * FROM v

--- index
-- refused: the index i of public.victim is not allowed: it may call public.calm
CREATE INDEX i ON public.victim ((public.calm('x') || name));
-- query:
SELECT count(*) FROM victim

--- index on what folds
-- refused: the index i of public.victim is not allowed
CREATE INDEX i ON public.victim (public.calm(CASE WHEN true THEN 'x' ELSE name END));
-- query:
SELECT count(*) FROM victim

--- index on SQL
-- refused: the index i of public.victim is not allowed: it may call public.wrap
CREATE FUNCTION public.wrap(t text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT public.calm('x') || t $$;
CREATE INDEX i ON public.victim (public.wrap(name));
-- query:
SELECT count(*) FROM victim

--- partial index
-- refused: the index i of public.victim is not allowed
CREATE INDEX i ON public.victim (name) WHERE public.sure('x');
-- query:
SELECT count(*) FROM victim

--- CHECK of a child
-- refused: the constraint c of public.child is not allowed
CREATE TABLE public.child (CONSTRAINT c CHECK (public.sure('x') AND n > 0)) INHERITS (public.victim);
-- query:
SELECT count(*) FROM victim WHERE n = 1

--- partition key
-- refused: the partition key of public.parts is not allowed
CREATE TABLE public.parts (name text) PARTITION BY LIST ((public.calm('x') || name));
CREATE TABLE public.part PARTITION OF public.parts FOR VALUES IN ('xa');
-- query:
SELECT count(*) FROM parts

--- statistics
-- refused: the statistics s of public.victim is not allowed
CREATE STATISTICS public.s ON (public.calm('x') || name), n FROM public.victim;
-- query:
SELECT count(*) FROM victim
