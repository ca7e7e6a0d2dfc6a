"""The queries of ``pg_catalog``, one constant each, and their results as plain rows.

Nothing here reads rows of user tables, nor what the server has derived from them: no statistics, no
sizes, no positions of sequences (PRIVACY P3). Columns that only some server versions have are
reached through ``to_jsonb(row)``, which gives NULL where a version lacks them.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, LiteralString

from psycopg.rows import namedtuple_row

from privbench.postgres.connect import Connection, ask_one
from privbench.postgres.failures import database_errors
from privbench.postgres.reading import SEARCH_PATH, assignment

#: Schemas of users: not the system's, not temporary, not an extension's own.
SCHEMAS: LiteralString = """
SELECT n.nspname AS name
FROM pg_catalog.pg_namespace n
WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.objid = n.oid
      AND d.deptype = 'e')
ORDER BY n.nspname
"""

#: All tables, views, materialised views, sequences and foreign tables of users.
RELATIONS: LiteralString = """
SELECT c.oid::bigint AS oid, n.nspname AS schema, c.relname AS name,
  c.relkind::pg_catalog.text AS kind,
  c.relispartition AS is_partition,
  CASE WHEN c.relispartition
    THEN pg_catalog.pg_partition_root(c.oid)::pg_catalog.oid::bigint END AS root,
  CASE WHEN c.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(c.oid) END AS partition_key,
  pg_catalog.obj_description(c.oid, 'pg_class') AS comment
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND c.relpersistence <> 't'
  AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid
      AND d.deptype = 'e')
ORDER BY n.nspname, c.relname
"""

COLUMNS: LiteralString = """
SELECT a.attrelid::bigint AS relation, a.attname AS name, a.attnum::integer AS position,
  a.atttypid::bigint AS type, a.atttypmod AS modifier,
  pg_catalog.format_type(a.atttypid, a.atttypmod) AS sql, a.attnotnull AS not_null,
  a.attidentity::pg_catalog.text AS identity, a.attgenerated::pg_catalog.text AS generated,
  pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS "default",
  cn.nspname AS collation_schema, co.collname AS collation,
  (SELECT q.refobjid::bigint FROM pg_catalog.pg_depend q
     JOIN pg_catalog.pg_class s ON s.oid = q.refobjid AND s.relkind = 'S'
   WHERE q.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND q.objid = d.oid
     AND q.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
   ORDER BY q.refobjid LIMIT 1) AS default_sequence
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_collation co
  ON co.oid = a.attcollation AND a.attcollation <> t.typcollation
LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
WHERE a.attrelid = ANY(%(relations)s::pg_catalog.oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

TYPES: LiteralString = """
SELECT t.oid::bigint AS oid, n.nspname AS schema, t.typname AS name,
  t.typtype::pg_catalog.text AS kind, n.nspname <> 'pg_catalog'
    AND (t.typname = 'citext' OR EXISTS (
    SELECT FROM pg_catalog.pg_type b JOIN pg_catalog.pg_namespace o ON o.oid = b.typnamespace
    WHERE b.typname = t.typname AND o.nspname = 'pg_catalog')) AS namesake,
  t.typcategory::pg_catalog.text AS category, t.typbasetype::bigint AS base,
    t.typtypmod AS modifier,
  t.typnotnull AS not_null, t.typelem::bigint AS element, x.extname AS extension,
  pg_catalog.format_type(t.oid, NULL) AS sql,
  ARRAY(SELECT coalesce(r.rngsubtype, m.rngsubtype)::bigint FROM (VALUES (1)) one(n)
        LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
        LEFT JOIN pg_catalog.pg_range m ON m.rngmultitypid = t.oid
        WHERE coalesce(r.rngsubtype, m.rngsubtype) IS NOT NULL
        UNION ALL
        (SELECT a.atttypid::bigint FROM pg_catalog.pg_attribute a
         WHERE a.attrelid = t.typrelid AND t.typtype = 'c' AND a.attnum > 0
           AND NOT a.attisdropped ORDER BY a.attnum)) AS parts,
  ARRAY(SELECT a.atttypmod FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = t.typrelid AND t.typtype = 'c' AND a.attnum > 0
          AND NOT a.attisdropped ORDER BY a.attnum) AS part_modifiers
FROM pg_catalog.pg_type t
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass
  AND d.objid = t.oid AND d.deptype = 'e'
LEFT JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid
WHERE t.oid = ANY(%(types)s::pg_catalog.oid[])
"""

#: Implicit casts that run a function of users; any expression may call them unnoticed. Languages 12
#: and 13 are internal and C, in which only superusers can make functions.
CASTS: LiteralString = """
SELECT k.castsource::bigint AS type, pg_catalog.format_type(k.casttarget, NULL) AS target,
  p.oid::pg_catalog.regprocedure::pg_catalog.text AS function
FROM pg_catalog.pg_cast k JOIN pg_catalog.pg_proc p ON p.oid = k.castfunc
WHERE k.castcontext = 'i' AND p.oid >= 16384 AND p.prolang NOT IN (12, 13)
"""

LABELS: LiteralString = """
SELECT e.enumtypid::bigint AS type, n.nspname AS schema, t.typname AS name, e.enumlabel AS label
FROM pg_catalog.pg_enum e
JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
ORDER BY n.nspname, t.typname, e.enumsortorder
"""

DOMAIN_CHECKS: LiteralString = """
SELECT c.contypid::bigint AS type, pg_catalog.pg_get_expr(c.conbin, 0) AS expression
FROM pg_catalog.pg_constraint c
WHERE c.contypid <> 0 AND c.contype = 'c'
ORDER BY c.contypid, c.conname
"""

#: ``one_to_one``: some UNIQUE index of referring columns takes for equal what the constraint does,
#: which compares by the referenced index's operator classes and the referenced columns' collations.
#: What is read of a key `c`, which has the columns of `pg_constraint`.
_KEY: LiteralString = """
SELECT c.conrelid::bigint AS relation, c.conname AS name, c.confrelid::bigint AS target,
  EXISTS (
    SELECT FROM pg_catalog.pg_index i
    WHERE i.indrelid = c.conrelid AND i.indisunique AND i.indisvalid AND NOT i.indisexclusion
      AND i.indpred IS NULL AND i.indexprs IS NULL AND NOT EXISTS (
      SELECT FROM ROWS FROM (pg_catalog.unnest(i.indkey::smallint[]),
        pg_catalog.unnest(i.indclass::pg_catalog.oid[]),
        pg_catalog.unnest(i.indcollation::pg_catalog.oid[])) WITH ORDINALITY u(n, ops, collated, p)
      WHERE u.p <= i.indnkeyatts AND NOT EXISTS (
        SELECT FROM ROWS FROM (pg_catalog.unnest(c.conkey),
          pg_catalog.unnest(c.confkey)) k(ours, theirs)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.theirs
        JOIN pg_catalog.pg_index t ON t.indexrelid = c.conindid
        CROSS JOIN ROWS FROM (pg_catalog.unnest(t.indkey::smallint[]),
          pg_catalog.unnest(t.indclass::pg_catalog.oid[])) r(n, ops)
        WHERE k.ours = u.n AND k.theirs = r.n AND r.ops = u.ops
          AND a.attcollation = u.collated))) AS one_to_one,
  ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.unnest(c.conkey) WITH ORDINALITY k(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n
        ORDER BY k.i) AS columns,
  ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.unnest(c.confkey) WITH ORDINALITY k(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.n
        ORDER BY k.i) AS target_columns,
  c.confdeltype::pg_catalog.text AS on_delete, c.confupdtype::pg_catalog.text AS on_update,
  c.confmatchtype::pg_catalog.text AS match, c.condeferrable AS deferrable,
  c.convalidated AND coalesce((pg_catalog.to_jsonb(c) ->> 'conenforced')::boolean,
    true) AS validated,
  coalesce((pg_catalog.to_jsonb(c) ->> 'conperiod')::boolean, false) AS period,
  ARRAY(SELECT pg_catalog.jsonb_build_object('operator', ARRAY[n.nspname, o.oprname],
          'parent', pg_catalog.format_type(o.oprleft, -1),
          'child', pg_catalog.format_type(o.oprright, -1),
          'source', CASE WHEN o.oid < 16384 THEN 'pg_catalog' ELSE e.extname END,
          'collation', CASE WHEN a.attcollation <> 0 THEN ARRAY[cn.nspname, co.collname] END,
          'folds', NOT coalesce(co.collisdeterministic, true),
          'hash', (SELECT ARRAY[hn.nspname, h.proname] FROM pg_catalog.pg_amop m
            JOIN pg_catalog.pg_amproc r ON r.amprocfamily = m.amopfamily AND r.amprocnum = 2
              AND r.amproclefttype = o.oprleft AND r.amprocrighttype = o.oprright
            JOIN pg_catalog.pg_proc h ON h.oid = r.amproc AND h.prolang IN (12, 13)
            JOIN pg_catalog.pg_namespace hn ON hn.oid = h.pronamespace
            WHERE m.amopopr = o.oid AND m.amopmethod = 405 AND o.oprleft = o.oprright
            ORDER BY h.oid LIMIT 1),
          'users', CASE WHEN f.prolang NOT IN (12, 13) OR o.oid >= 16384 AND e.oid IS NULL
            THEN o.oid::pg_catalog.regoperator END)
        FROM ROWS FROM (pg_catalog.unnest(c.conpfeqop), pg_catalog.unnest(c.confkey))
          WITH ORDINALITY k(op, n, i)
        JOIN pg_catalog.pg_operator o ON o.oid = k.op
        JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
        JOIN pg_catalog.pg_proc f ON f.oid = o.oprcode
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.n
        LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
        LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
        LEFT JOIN pg_catalog.pg_depend d ON d.objid = o.oid AND d.deptype = 'e'
          AND d.classid = 'pg_catalog.pg_operator'::pg_catalog.regclass
        LEFT JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
        ORDER BY k.i) AS equalities
"""

FOREIGN_KEYS: LiteralString = f"""{_KEY}
FROM pg_catalog.pg_constraint c
WHERE c.contype = 'f' AND c.conparentid = 0 AND c.conrelid = ANY(%(relations)s::pg_catalog.oid[])
ORDER BY c.conrelid, c.conname
"""

#: A reference that has no constraint, as PostgreSQL would make one of it: with the primary key or
#: UNIQUE index on the columns that are referred to, and the equality of that index between its type
#: and the type of the referring column, or of a type that this becomes implicitly. Of columns that
#: nothing compares, `equalities` lacks some.
_REFERENCE: LiteralString = """
WITH RECURSIVE down(type, base, next) AS (
  SELECT y.oid, y.oid, y.typbasetype FROM pg_catalog.pg_type y
  UNION ALL
  SELECT down.type, y.oid, y.typbasetype
  FROM down JOIN pg_catalog.pg_type y ON y.oid = down.next
), ends AS (
  SELECT w.side, t.oid, ARRAY(
      SELECT a.attnum FROM pg_catalog.unnest(w.names) WITH ORDINALITY u(name, i)
      JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attname = u.name
      ORDER BY u.i) AS attributes
  FROM (VALUES
    (1, %(schema)s, %(table)s, %(columns)s::pg_catalog.text[]),
    (2, %(ref_schema)s, %(ref_table)s, %(ref_columns)s::pg_catalog.text[])
  ) w(side, schema, name, names)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class t ON t.relnamespace = n.oid AND t.relname = w.name
), c AS (
  SELECT ours.oid AS conrelid, %(name)s::pg_catalog.text AS conname, theirs.oid AS confrelid,
    ours.attributes AS conkey, theirs.attributes AS confkey, i.indexrelid AS conindid,
    'a' AS confdeltype, 'a' AS confupdtype, 's' AS confmatchtype,
    false AS condeferrable, false AS convalidated,
    ARRAY(
      SELECT (
        SELECT m.amopopr FROM pg_catalog.pg_amop m
        WHERE m.amopfamily = o.opcfamily AND m.amopstrategy = 3 AND m.amoplefttype = o.opcintype
          AND (m.amoprighttype = mine.base OR m.amoprighttype = o.opcintype
            AND (mine.base = other.base OR EXISTS (
              SELECT FROM pg_catalog.pg_cast s WHERE s.castsource = mine.base
                AND s.casttarget = o.opcintype AND s.castcontext = 'i')))
        ORDER BY m.amoprighttype <> mine.base LIMIT 1)
      FROM ROWS FROM (pg_catalog.unnest(ours.attributes), pg_catalog.unnest(theirs.attributes))
        WITH ORDINALITY k(n, r, i)
      JOIN pg_catalog.pg_attribute a ON a.attrelid = ours.oid AND a.attnum = k.n
      JOIN pg_catalog.pg_attribute p ON p.attrelid = theirs.oid AND p.attnum = k.r
      JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
      JOIN down mine ON mine.next = 0
        AND mine.type = CASE WHEN %(each)s THEN y.typelem ELSE y.oid END
      JOIN down other ON other.type = p.atttypid AND other.next = 0
      JOIN ROWS FROM (pg_catalog.unnest(i.indkey::smallint[]),
        pg_catalog.unnest(i.indclass::pg_catalog.oid[])) x(n, ops) ON x.n = k.r
      JOIN pg_catalog.pg_opclass o ON o.oid = x.ops
      ORDER BY k.i) AS conpfeqop
  FROM ends ours JOIN ends theirs ON ours.side = 1 AND theirs.side = 2
  CROSS JOIN LATERAL (
    SELECT x.* FROM pg_catalog.pg_index x
    WHERE x.indrelid = theirs.oid AND x.indisunique AND x.indisvalid AND NOT x.indisexclusion
      AND x.indpred IS NULL AND x.indexprs IS NULL
      AND x.indnkeyatts = pg_catalog.cardinality(theirs.attributes)
      AND ARRAY(SELECT k.n FROM pg_catalog.unnest(x.indkey::smallint[]) WITH ORDINALITY k(n, p)
        WHERE k.p <= x.indnkeyatts) @> theirs.attributes
    ORDER BY x.indisprimary DESC, x.indexrelid LIMIT 1) i
)
"""
REFERENCE: LiteralString = f"{_REFERENCE}{_KEY}FROM c"

CHECKS: LiteralString = """
SELECT c.conrelid::bigint AS relation, c.conname AS name,
  pg_catalog.pg_get_expr(c.conbin, c.conrelid) AS expression,
  ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.unnest(c.conkey) WITH ORDINALITY k(n, i)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n
        ORDER BY k.i) AS columns
FROM pg_catalog.pg_constraint c
WHERE c.contype = 'c' AND c.conrelid = ANY(%(relations)s::pg_catalog.oid[])
ORDER BY c.conrelid, c.conname
"""

#: Bounds of the partitions directly beneath a table, and the first column of its partition key.
PARTITION_BOUNDS: LiteralString = """
SELECT p.partrelid::bigint AS relation, p.partstrat::pg_catalog.text AS strategy,
  p.partnatts AS columns,
  (SELECT a.attname FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = p.partrelid AND a.attnum = (p.partattrs::smallint[])[0] AND a.attnum > 0
  ) AS column,
  ARRAY(SELECT pg_catalog.pg_get_expr(c.relpartbound, c.oid)
        FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = p.partrelid ORDER BY c.oid) AS bounds
FROM pg_catalog.pg_partitioned_table p
WHERE p.partrelid = ANY(%(relations)s::pg_catalog.oid[]) AND p.partstrat IN ('l', 'r')
ORDER BY p.partrelid
"""

INDEXES: LiteralString = """
SELECT own.root::bigint AS relation, c.relname AS name, i.indisunique AS is_unique,
  pg_catalog.pg_get_partition_constraintdef(i.indrelid) AS within,
  i.indisprimary AS is_primary, i.indisvalid AS valid, i.indisexclusion AS exclusion,
  coalesce((SELECT pg_catalog.pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k
    WHERE k.conindid = i.indexrelid AND k.contype <> 'f' AND i.indisexclusion),
    pg_catalog.pg_get_indexdef(i.indexrelid)) AS definition,
  pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS predicate,
  i.indexprs IS NOT NULL AS has_expressions,
  coalesce((pg_catalog.to_jsonb(i) ->> 'indnullsnotdistinct')::boolean,
    false) AS nulls_not_distinct,
  ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.unnest(i.indkey::smallint[])
    WITH ORDINALITY k(n, p)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
        WHERE k.p <= i.indnkeyatts AND k.n > 0 ORDER BY k.p) AS columns
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
CROSS JOIN coalesce(pg_catalog.pg_partition_root(i.indrelid)::pg_catalog.oid, i.indrelid) own(root)
WHERE own.root = ANY(%(relations)s::pg_catalog.oid[])
  AND (own.root = i.indrelid OR i.indisexclusion AND NOT c.relispartition)
ORDER BY i.indrelid, c.relname
"""

SEQUENCES: LiteralString = """
SELECT c.oid::bigint AS oid, n.nspname AS schema, c.relname AS name, s.seqstart AS start,
  s.seqincrement AS increment, s.seqmin AS minimum, s.seqmax AS maximum, s.seqcycle AS cycle,
  d.refobjid::bigint AS owner, a.attname AS owner_column
FROM pg_catalog.pg_sequence s
JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
  AND d.objid = c.oid AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
  AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend e
    WHERE e.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND e.objid = c.oid
      AND e.deptype = 'e')
ORDER BY n.nspname, c.relname
"""

#: The planner's estimates: statistics of rows without noise, shown to a person and never used.
SIZES: LiteralString = """
SELECT n.nspname AS schema, c.relname AS name,
  (SELECT coalesce(sum(p.reltuples) FILTER (WHERE p.reltuples >= 0), 0)::float8
    FROM pg_catalog.pg_class p
    WHERE c.relkind = 'r' AND p.oid = c.oid OR p.oid IN (
      SELECT relid FROM pg_catalog.pg_partition_tree(c.oid) WHERE isleaf)) AS rows
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p')
"""

EXTENSIONS: LiteralString = """
SELECT extname AS name FROM pg_catalog.pg_extension WHERE extname <> 'plpgsql' ORDER BY extname
"""


def ask(connection: Connection, question: LiteralString, values: Mapping[str, Any]) -> list[Any]:
    """Run a catalog query and return all rows as named tuples."""
    with (
        database_errors("reading the catalog"),
        connection.cursor(row_factory=namedtuple_row) as cursor,
    ):
        # psycopg sends a list as an array, but a tuple as a record. A question without
        # place-holders goes without values: it may hold a % sign.
        parameters = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
        return cursor.execute(question, parameters or None).fetchall()


@contextlib.contextmanager
def bare_search_path(connection: Connection) -> Iterator[None]:
    """Within this context, the server prints every name with its schema.

    It does so whatever the role's own search path is.
    """
    with database_errors("reading the catalog"):
        (before,) = ask_one(connection, "SHOW search_path")
    if before == SEARCH_PATH:
        yield
        return
    with connection.transaction():
        connection.execute(assignment("search_path", SEARCH_PATH))
        yield
        connection.execute(assignment("search_path", before))
