"""The catalog queries of `privbench.workload.database`, one constant each."""

from typing import Any, LiteralString

from privbench.postgres import catalog
from privbench.postgres.connect import Connection

#: Objects that initdb makes have lower OIDs.
FIRST_USER_OID = 16384

#: Functions of users. ``body`` is the text of a function in SQL or PL/pgSQL, whose names are
#: resolved at every call; ``defaults`` is whether arguments have defaults, which the planner
#: evaluates; ``plain`` is whether nothing runs but the body, or what the ``aggregate`` is made of:
#: of settings, only the search path does not change how a body is read; ``types`` are the user
#: types of its arguments (OUT and TABLE too), its result and its state, whose CHECKs may run;
#: ``alone`` is whether it can be called with one argument; ``range`` is the range type for which
#: PostgreSQL made it. A function counts as an extension's
#: only if a superuser made it, since the owner of an extension can add functions to it.
FUNCTIONS: LiteralString = """
SELECT p.oid::pg_catalog.int8 AS oid, n.nspname AS schema, p.proname AS name, l.lanname AS language,
  CASE WHEN l.lanname IN ('sql', 'plpgsql') THEN p.prosrc ELSE '' END AS body,
  p.pronargdefaults > 0 AS defaults, p.prokind = 'a' AS aggregate,
  p.prokind IN ('f', 'a') AND p.pronargdefaults = 0 AND NOT EXISTS (
    SELECT FROM pg_catalog.unnest(p.proconfig) c(item)
    WHERE NOT pg_catalog.starts_with(c.item, 'search_path=')) AS plain,
  ARRAY(SELECT t.type::pg_catalog.int8 FROM (
     SELECT p.prorettype AS type UNION SELECT pg_catalog.unnest(p.proargtypes)
     UNION SELECT pg_catalog.unnest(p.proallargtypes)
     UNION SELECT pg_catalog.unnest(ARRAY[a.aggtranstype, a.aggmtranstype])
     FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid = p.oid) t
   WHERE t.type >= %(first)s) AS types,
  p.provariadic <> 0 OR 1 BETWEEN p.pronargs - p.pronargdefaults AND p.pronargs AS alone,
  (SELECT d.refobjid::pg_catalog.int8 FROM pg_catalog.pg_depend d
   WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid
     AND d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.deptype = 'i'
   LIMIT 1) AS range,
  (SELECT x.extname FROM pg_catalog.pg_depend d
     JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid
   WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid
     AND d.deptype = 'e'
     AND (r.rolsuper OR p.prokind IN ('f', 'w') AND l.lanname IN ('c', 'internal'))
   LIMIT 1) AS extension
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  JOIN pg_catalog.pg_language l ON l.oid = p.prolang
  JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
WHERE p.oid >= %(first)s
"""
#: What runs in an aggregate: its functions, and those of the operator by which it may be sorted.
AGGREGATE: LiteralString = """
SELECT f.oid::pg_catalog.int8 AS code, f.proname AS function
FROM pg_catalog.pg_aggregate a JOIN pg_catalog.pg_proc f ON f.oid IN (
  a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn,
  a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn)
WHERE a.aggfnoid = %(oid)s
UNION ALL SELECT f.oid::pg_catalog.int8, f.proname
FROM pg_catalog.pg_aggregate a JOIN pg_catalog.pg_operator o ON o.oid = a.aggsortop
  JOIN pg_catalog.pg_operator r ON r.oid IN (o.oid, o.oprcom, o.oprnegate)
  JOIN pg_catalog.pg_proc f ON f.oid = r.oprcode
WHERE a.aggfnoid = %(oid)s
"""
#: The body of a function in the syntax of standard SQL, which PostgreSQL has since version 14; its
#: names were resolved when it was made.
STANDARD_BODY: LiteralString = """
SELECT pg_catalog.pg_get_function_sqlbody(%(oid)s::pg_catalog.oid) AS text
"""
#: Names of the server's own functions; ``alone`` are those that take one argument.
OWN_FUNCTIONS: LiteralString = """
SELECT p.proname AS name, pg_catalog.bool_or((p.provariadic <> 0 OR 1 BETWEEN
  p.pronargs - p.pronargdefaults AND p.pronargs)
  AND NOT 'pg_catalog.internal'::pg_catalog.regtype = ANY(p.proargtypes)) AS alone
FROM pg_catalog.pg_proc p WHERE p.oid < %(first)s GROUP BY p.proname
"""
#: Operators with their functions and those of their commutators and negators, which the planner
#: may use in their place.
OPERATORS: LiteralString = """
SELECT n.nspname AS schema, o.oprname AS name, r.oprcode::pg_catalog.oid::pg_catalog.int8 AS code,
  f.proname AS function
FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
  JOIN pg_catalog.pg_operator r ON r.oid IN (o.oid, o.oprcom, o.oprnegate)
  LEFT JOIN pg_catalog.pg_proc f ON f.oid = r.oprcode
WHERE o.oid >= %(first)s
"""
#: Functions that run without being named in a query: those of casts, and support functions and
#: operators of indexes.
UNNAMED: LiteralString = """
SELECT 'the cast from ' || pg_catalog.format_type(c.castsource, NULL) || ' to '
  || pg_catalog.format_type(c.casttarget, NULL) AS what, f.oid::pg_catalog.int8 AS code,
  f.proname AS function
FROM pg_catalog.pg_cast c JOIN pg_catalog.pg_proc f ON f.oid = c.castfunc
WHERE c.oid >= %(first)s AND c.castmethod = 'f'
UNION ALL SELECT 'the operator family ' || m.opfname, f.oid::pg_catalog.int8, f.proname
FROM pg_catalog.pg_amproc a JOIN pg_catalog.pg_opfamily m ON m.oid = a.amprocfamily
  JOIN pg_catalog.pg_proc f ON f.oid = a.amproc
WHERE a.oid >= %(first)s AND f.oid >= %(first)s
UNION ALL SELECT 'the operator family ' || m.opfname, f.oid::pg_catalog.int8, f.proname
FROM pg_catalog.pg_amop a JOIN pg_catalog.pg_opfamily m ON m.oid = a.amopfamily
  JOIN pg_catalog.pg_operator o ON o.oid = a.amopopr
  JOIN pg_catalog.pg_proc f ON f.oid = o.oprcode
WHERE a.oid >= %(first)s AND f.oid >= %(first)s
"""
TYPES: LiteralString = """
SELECT t.oid::pg_catalog.int8 AS oid, n.nspname AS schema, t.typname AS name,
  t.typtype::pg_catalog.text AS kind, t.typbasetype::pg_catalog.int8 AS base,
  t.typelem::pg_catalog.int8 AS element, t.typcategory = 'A' AS is_array,
  (SELECT x.extname FROM pg_catalog.pg_depend d
     JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid
   WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = t.oid
     AND d.deptype = 'e' LIMIT 1) AS extension,
  ARRAY(SELECT pg_catalog.pg_get_expr(c.conbin, 0) FROM pg_catalog.pg_constraint c
   WHERE c.contypid = t.oid AND c.contype = 'c') AS checks,
  ARRAY(SELECT a.atttypid::pg_catalog.int8 FROM pg_catalog.pg_attribute a
   WHERE t.typrelid <> 0 AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
     AND a.atttypid >= %(first)s)
  || ARRAY(SELECT r.rngsubtype::pg_catalog.int8 FROM pg_catalog.pg_range r
   WHERE r.rngtypid = t.oid) AS parts,
  ARRAY(SELECT f.oid::pg_catalog.int8 FROM pg_catalog.pg_range r
     JOIN pg_catalog.pg_proc f ON f.oid IN (r.rngcanonical, r.rngsubdiff)
   WHERE r.rngtypid = t.oid AND f.oid >= %(first)s) AS code
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE t.oid >= %(first)s
"""
RELATIONS: LiteralString = """
SELECT c.oid::pg_catalog.int8 AS oid, n.nspname AS schema, c.relname AS name,
  c.relkind::pg_catalog.text AS kind, c.relrowsecurity AS secured,
  EXISTS (SELECT FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.oid AND a.attgenerated = 'v') AS virtual
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind NOT IN ('i', 'I', 't')
"""
PARTS: LiteralString = """
SELECT i.inhrelid::pg_catalog.int8 AS part FROM pg_catalog.pg_inherits i WHERE i.inhparent = %(oid)s
"""
COLUMN_TYPES: LiteralString = """
SELECT DISTINCT a.atttypid::pg_catalog.int8 AS type FROM pg_catalog.pg_attribute a
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= %(first)s
"""
#: Expressions whose constant parts the planner evaluates; those of virtual columns come last, since
#: the other expressions may use these columns.
PLANNED: LiteralString = """
SELECT 'the index ' || x.relname AS what, e.text, e.part
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid,
  LATERAL (VALUES (pg_catalog.pg_get_expr(i.indexprs, i.indrelid), ''),
    (pg_catalog.pg_get_expr(i.indpred, i.indrelid), 'condition')) AS e(text, part)
WHERE i.indrelid = %(oid)s
UNION ALL SELECT 'the constraint ' || c.conname, pg_catalog.pg_get_expr(c.conbin, c.conrelid),
  'check'
FROM pg_catalog.pg_constraint c WHERE c.conrelid = %(oid)s AND c.contype = 'c'
UNION ALL SELECT 'the partition key', pg_catalog.pg_get_expr(p.partexprs, p.partrelid), ''
FROM pg_catalog.pg_partitioned_table p WHERE p.partrelid = %(oid)s
UNION ALL SELECT 'the column ' || a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid), ''
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_attrdef d
  ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %(oid)s AND a.attgenerated = 'v'
"""
#: Extended statistics on expressions, which PostgreSQL has since version 14.
STATISTICS: LiteralString = """
SELECT 'the statistics ' || s.stxname AS what, e.text, '' AS part
FROM pg_catalog.pg_statistic_ext s,
  LATERAL pg_catalog.unnest(pg_catalog.pg_get_statisticsobjdef_expressions(s.oid)) AS e(text)
WHERE s.stxrelid = %(oid)s
"""
POLICIES: LiteralString = """
SELECT 'the policy ' || p.polname AS what, pg_catalog.pg_get_expr(p.polqual, p.polrelid) AS text
FROM pg_catalog.pg_policy p WHERE p.polrelid = %(oid)s AND p.polcmd IN ('r', '*')
"""
#: A database, the identity of its tables, and what the role may do beyond reading them.
SIDE: LiteralString = """
SELECT pg_catalog.current_database() AS database,
  pg_catalog.current_setting('server_version') AS version,
  (SELECT pg_catalog.md5(coalesce(
    pg_catalog.string_agg(c.oid::pg_catalog.text, ',' ORDER BY c.oid), ''))
   FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'p') AND c.oid >= %(first)s) AS catalog,
  r.rolname AS role, ARRAY(SELECT v.word FROM (VALUES (r.rolsuper, 'SUPERUSER'),
  (r.rolcreaterole, 'CREATEROLE'), (r.rolbypassrls, 'BYPASSRLS'),
  (r.rolreplication, 'REPLICATION')) AS v(held, word) WHERE v.held)
  || ARRAY(SELECT g.rolname::pg_catalog.text FROM pg_catalog.pg_roles g WHERE g.rolname IN
  ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
  AND NOT r.rolsuper AND pg_catalog.pg_has_role(r.oid, g.oid, 'MEMBER')
  ORDER BY g.rolname) AS powers
FROM pg_catalog.pg_roles r WHERE r.rolname = CURRENT_USER
"""
VIEW: LiteralString = "SELECT pg_catalog.pg_get_viewdef(%(oid)s::pg_catalog.oid) AS text"
FILTERED: LiteralString = "SELECT pg_catalog.row_security_active(%(oid)s::pg_catalog.oid) AS active"
PATH: LiteralString = """
SELECT s.name
FROM pg_catalog.unnest(pg_catalog.current_schemas(true)) WITH ORDINALITY AS s(name, place)
ORDER BY s.place
"""


def ask(connection: Connection, question: LiteralString, oid: int = 0) -> list[Any]:
    """Run a catalog query about the object with an OID, and return all rows as named tuples."""
    return catalog.ask(connection, question, {"oid": oid, "first": FIRST_USER_OID})
