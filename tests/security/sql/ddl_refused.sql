-- Statements of a model's DDL, each an attack, under what the refusal of the whole model says; read
-- by test_ddl.py. Signs that editors do not show are written as \u and four digits.

--- calls public.dblink_exec
CREATE TABLE public.x (a text DEFAULT public.U&"\0064blink_exec"('DROP TABLE y'))
--- lo_import
CREATE TABLE public.x (a int CHECK (U&"lo\005fimport"('/etc/passwd') > 0))
--- calls pg_read_file
CREATE TABLE public.x (a text GENERATED ALWAYS AS (pg_read_file('/etc/passwd')) STORED)
--- selects pg_read_file
CREATE TABLE public.x (a text DEFAULT ('/etc/hostname'::text).pg_read_file)
--- selects pg_read_file
CREATE TABLE public.x (a text DEFAULT (pg_catalog.textcat('/etc/', 'x'))."pg_read_file")
--- uses the operator public.|||
CREATE TABLE public.x (a text DEFAULT CAST('a' AS text) OPERATOR(public.|||) 'b')
--- calls pg_catalog.pg_read
CREATE TABLE public.x (a int DEFAULT TREAT('x' AS pg_read_file))
--- calls nextval
CREATE TABLE public.x (a int DEFAULT nextval('public.of_the_target'))
--- calls nextval
CREATE SEQUENCE public."of_the_TARGET"; CREATE TABLE public.x (a int DEFAULT nextval('public.of_the_TARGET'))
--- calls nextval
CREATE SEQUENCE public."\u00c4"; CREATE TABLE public.x (a int DEFAULT nextval('public.\u00c4'))
--- selects nextval
CREATE TABLE public.x ("nextval" int, a int DEFAULT ('public.of_the_target'::regclass).nextval)
--- selects nextval
CREATE TABLE public.x ("nextval" int, a regclass, CHECK ((a).nextval > 0))
--- selects nextval
CREATE TABLE public.x ("nextval" int, a regclass, CHECK (x.a.nextval > 0))
--- selects nextval
CREATE TABLE public.x ("nextval" int, a int DEFAULT ((ARRAY['o'::regclass])[1])."nextval")
--- selects nextval
CREATE TABLE public.x ("nextval" int, a int[] DEFAULT ARRAY[2, (('o'::regclass).nextval)])
--- selects nextval
CREATE TABLE public.x ("nextval" int, a int GENERATED ALWAYS AS ((CAST('o' AS regclass)).nextval) STORED)
--- selects nextval
CREATE DOMAIN public.d AS int DEFAULT (SELECT nextval FROM (SELECT ('o'::regclass).nextval) AS q(nextval))
--- selects nextval
CREATE TABLE public.x ("nextval" int, a regclass) PARTITION BY RANGE (((a).nextval))
--- selects currval
CREATE TABLE public.x (currval int, a int DEFAULT ('public.of_the_target'::regclass).currval)
--- calls nextval
CREATE TABLE public.x (a int DEFAULT nextval(('pg_' || 'x')::regclass))
--- set_config
CREATE TABLE public.x (a int DEFAULT set_config('role', 'me', false)::int)
--- current_s
CREATE TABLE public.x (a text DEFAULT current_setting('ssl_passphrase_command'))
--- query_to_xml
CREATE DOMAIN public.d AS text CHECK (pg_catalog.query_to_xml(VALUE, true, true, '') = '')
--- as subtype_diff
CREATE TYPE public.r AS RANGE (subtype = text, subtype_diff = public.evil)
--- as canonical
CREATE TYPE public.r AS RANGE (subtype = text, canonical = public.evil)
--- access method evil
CREATE TABLE public.x (a int) USING evil
--- collation public.evil
CREATE TABLE public.x (a text COLLATE public.evil)
--- type public.evil
CREATE TABLE public.x (a public.evil)
--- public.of_the_target, which
ALTER SEQUENCE public.of_the_target OWNED BY public.t.a
--- calls public.evil
CREATE TABLE public.x (a int) PARTITION BY RANGE (public.evil(a))
--- operator class
CREATE TABLE public.x (a int) PARTITION BY RANGE (a public.evil_ops)
--- TableLikeClause
CREATE TABLE public.x (LIKE pg_catalog.pg_authid)
--- reads pg_catalog.pg_authid
CREATE TABLE public.x () INHERITS (pg_catalog.pg_authid)
--- reads pg_catalog.pg_authid
CREATE TABLE public.x (a oid REFERENCES pg_catalog.pg_authid)
--- no schema of its own
CREATE TABLE pg_catalog.pg_authid (a int)
--- no schema of its own
CREATE TABLE other.x (a int)
--- makes the schema privbench unfinished load
CREATE SCHEMA "privbench unfinished load"
--- makes the schema privbench unfinished load
CREATE SCHEMA IF NOT EXISTS "privbench unfinished load"
--- no schema of its own
CREATE TABLE "privbench unfinished load".parts (a int)
--- no schema of its own
CREATE TABLE x (a int)
--- no schema of its own
CREATE TABLE postgres.public.x (a int)
--- no schema of its own
CREATE TEMP TABLE pg_authid (a int)
--- no schema of its own
CREATE TABLE pg_temp.x (a int)
--- temporary
CREATE TEMPORARY VIEW public.x AS SELECT 1
--- otherwise than a dump does
CREATE SCHEMA pg_evil
--- otherwise than a dump does
CREATE SCHEMA information_schema
--- otherwise
CREATE SCHEMA z GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_catalog TO PUBLIC
--- otherwise than a dump does
CREATE SCHEMA z AUTHORIZATION postgres
--- otherwise than a dump does
CREATE SCHEMA z CREATE TABLE x (a int)
--- no schema of its own
CREATE VIEW pg_catalog.pg_shadow AS SELECT 1
--- no schema of its own
CREATE SEQUENCE pg_catalog.s
--- no schema of its own
CREATE TABLE public.t (a int, b text); ALTER TABLE public.t ALTER a ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME pg_catalog.s)
--- tablespace
CREATE TABLE public.t (a int, b text); CREATE INDEX i ON public.t (a) TABLESPACE evil
--- tablespace
CREATE TABLE public.x (a int) TABLESPACE evil
--- otherwise than a dump does
CREATE TABLE public.x (a int) ON COMMIT DROP
--- AlterOwnerStmt
ALTER TYPE pg_catalog.int4 OWNER TO postgres
--- AT_ChangeOwner
CREATE TABLE public.t (a int, b text); ALTER TABLE public.t OWNER TO postgres
--- as no dump does
CREATE TABLE public.t (a int, b text); ALTER TABLE public.t ADD COLUMN c text DEFAULT pg_read_file('x')
--- as no dump does
CREATE TABLE public.t (a int, b text); ALTER TABLE public.t ALTER a TYPE text USING pg_read_file('x')
--- fills a table by a query
CREATE TABLE public.x AS SELECT 1
--- SelectStmt
SELECT 1 INTO public.x
--- SelectStmt
SELECT pg_catalog.lo_export(1, '/tmp/x')
--- CopyStmt
COPY public.t TO PROGRAM 'sh'
--- DoStmt
DO $$ BEGIN PERFORM 1; END $$
--- CallStmt
CALL public.evil()
--- AlterSystemStmt
ALTER SYSTEM SET archive_command = 'sh'
--- AlterDatabaseSetStmt
ALTER DATABASE postgres SET search_path = evil
--- AlterRoleSetStmt
ALTER ROLE postgres SET search_path = evil
--- CreateRoleStmt
CREATE ROLE me SUPERUSER
--- GrantRoleStmt
GRANT pg_execute_server_program TO me
--- GrantStmt
GRANT ALL ON SCHEMA public TO me
--- AlterDefaultPrivilegesStmt
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO me
--- CreateForeignServerStmt
CREATE SERVER s FOREIGN DATA WRAPPER w
--- CreateUserMappingStmt
CREATE USER MAPPING FOR me SERVER s OPTIONS (password 'x')
--- CreateForeignTableStmt
CREATE FOREIGN TABLE public.f (a int) SERVER s
--- CreateEventTrigStmt
CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f()
--- CreateSubscriptionStmt
CREATE SUBSCRIPTION s CONNECTION 'host=evil' PUBLICATION p
--- CreatePublicationStmt
CREATE PUBLICATION p FOR ALL TABLES
--- SecLabelStmt
SECURITY LABEL ON TABLE public.t IS 'x'
--- CommentStmt
COMMENT ON TABLE public.t IS 'x'
--- LoadStmt
LOAD 'evil'
--- PrepareStmt
PREPARE p AS SELECT 1
--- ExplainStmt
EXPLAIN ANALYZE SELECT 1
--- DropStmt
DROP TABLE public.t
--- TruncateStmt
TRUNCATE public.t
--- LockStmt
LOCK TABLE public.t
--- TransactionStmt
COMMIT
--- sets role
SET ROLE postgres
--- sets role
RESET ROLE
--- sets session_replication_role
SET session_replication_role = replica
--- sets default_tablespace
SET LOCAL default_tablespace = ''
--- sets default_tablespace
SET default_tablespace = 'mine'
--- sets default_table_access_method
SET default_table_access_method = evil
--- otherwise than a dump does
CREATE EXTENSION citext VERSION '1.0' SCHEMA public
--- otherwise than a dump does
CREATE EXTENSION earthdistance WITH SCHEMA public CASCADE
---  
CREATE TABLE public.x (a int DEFAULT 1\u00a0$$ , lo_import('/x') AS b --$$)
---  
CREATE TABLE public.x (a int);\u2028COPY t TO PROGRAM 'sh'
--- 0x1F is a number that not all servers know
CREATE TABLE public.x (a int DEFAULT 0x1F)
--- 1_000 is a number that not all servers know
CREATE TABLE public.x (a int DEFAULT 1_000)
--- a name is longer than 63 bytes
CREATE TABLE public."xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" (a int)
--- unterminated quoted string
CREATE TABLE public.x (a text DEFAULT 'open)
--- syntax error
\! touch /tmp/x
CREATE TABLE public.x (a int)
--- CopyStmt
CREATE TABLE public.foo$a$ (i int); COPY t TO PROGRAM 'sh'; -- $a$
--- CopyStmt
CREATE TABLE public.x (a int); -- x\u000dCOPY t TO PROGRAM 'sh';
--- CopyStmt
CREATE TABLE public.x (a text DEFAULT '\'); COPY t TO PROGRAM 'sh'; --')
--- smuggled, which lies in no schema
CREATE TABLE public.x (a text DEFAULT E'a'
'\''); CREATE TABLE smuggled (i int); --')
--- cannot be read: syntax error at or near "NEWLY" (line 1, column 32)
CREATE TABLE public.x (a int)  NEWLY
--- cannot be read: syntax error at or near "SELEKT"
SELEKT 1
--- cannot be read: syntax error at or near "\"
\! touch /tmp/x
--- (CopyStmt)
CREATE PROPERTY GRAPH public.g; COPY public.t TO PROGRAM 'sh'
--- (CopyStmt)
CREATE VIEW public.v AS SELECT 1) GROUP BY ALL; COPY public.t TO PROGRAM 'sh'
--- calls pg_read_file
CREATE VIEW public.v AS SELECT a FROM public.t GROUP BY ALL; CREATE TABLE public.x (a text DEFAULT pg_read_file('/etc/passwd'))
--- cannot be read: unterminated quoted string
CREATE PROPERTY GRAPH public.g; CREATE VIEW public.v AS SELECT '
--- cannot be read: syntax error at or near "NEWLY"
CREATE  TABLE public.x (a int) NEWLY
--- cannot be read: syntax error at or near "NEWLY"
CREATE /* a */ TYPE public.x AS NEWLY
--- cannot be read: syntax error at or near "NEWLY"
CREATE -- a
  SCHEMA public NEWLY
--- cannot be read: syntax error at or near "NEWLY"
CREATE GLOBAL TEMP TABLE x (a int) NEWLY
