-- What is asked of a source and of its clone; read by faithful.py. Most of it are checks: what is
-- checked, and a statement that PostgreSQL refuses if it does not hold.

--- user tables
c.relnamespace::regnamespace::text !~ '^(pg_|information_schema$)' AND c.relpersistence <> 't'
--- failures
DO $proof$
DECLARE item record; failures jsonb := '[]';
BEGIN
  FOR item IN {checks} LOOP
    BEGIN
      EXECUTE item.statement;
      RAISE SQLSTATE 'ZZ000';
    EXCEPTION
      WHEN SQLSTATE 'ZZ000' THEN NULL;
      WHEN OTHERS THEN failures := failures || to_jsonb(item.what || ': ' || SQLERRM);
    END;
  END LOOP;
  PERFORM set_config('proof.failures', failures::text, false);
END $proof$
--- FOREIGN KEY and CHECK are added once more
-- Without statistics: PostgreSQL 18 cannot plan a merge join on a "char" that has a histogram
-- ("cache lookup failed for collation 0").
SELECT format('%s %s', c.oid::regclass, k.conname) AS what, format(
  'DELETE FROM pg_catalog.pg_statistic; ALTER TABLE %s ADD CONSTRAINT "proof of the zoo" %s',
  c.oid::regclass, pg_get_constraintdef(k.oid)) AS statement
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE k.contype IN ('f', 'c') AND k.convalidated AND k.conparentid = 0 AND k.coninhcount = 0
  AND c.relnamespace <> 'information_schema'::regnamespace
--- UNIQUE and EXCLUDE are indexed anew
SELECT 'index of ' || c.oid::regclass AS what, format('REINDEX TABLE %s', c.oid::regclass) AS statement
FROM pg_class c WHERE c.relkind IN ('r', 'm') AND {user tables} AND EXISTS (
  SELECT FROM pg_index WHERE indrelid = c.oid AND (indisunique OR indisexclusion))
--- NOT NULL
SELECT format('NULLs in %s.%s', c.oid::regclass, a.attname) AS what, format(
  'SELECT 1 / (count(*) = 0)::int FROM ONLY %s WHERE %I IS NULL', c.oid::regclass, a.attname)
  AS statement
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND {user tables} AND a.attnotnull
--- values of domains are read again from their text
SELECT format('%s.%s', c.oid::regclass, a.attname) AS what, format(
  'SELECT count(%I::text::%s) FROM ONLY %s', a.attname, format_type(a.atttypid, a.atttypmod),
  c.oid::regclass) AS statement
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND {user tables}
  AND (t.typtype IN ('d', 'c', 'r', 'm') OR t.typcategory = 'A')
--- statistics of tables with rows and columns
SELECT 'no statistics of ' || c.oid::regclass AS what,
  format('SELECT 1 / (count(*) = 0)::int FROM %s', c.oid::regclass) AS statement
FROM pg_class c WHERE c.relkind IN ('r', 'p', 'm') AND {user tables} AND c.relispopulated
  AND NOT EXISTS (SELECT FROM pg_statistic WHERE starelid = c.oid) AND EXISTS (
  SELECT FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
--- next numbers of sequences are new
SELECT 'next number is held: ' || s.oid::regclass AS what, format(
  'SELECT 1 / (count(*) = 0)::int FROM %s WHERE %I = (SELECT nextval(%L))',
  d.refobjid::regclass, a.attname, s.oid::regclass) AS statement
FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
  JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE d.deptype IN ('a', 'i') AND d.refobjsubid > 0
  AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
--- no row is its own ancestor
-- A root refers to nothing, or to itself where it must refer to something. Where every row must
-- refer to another one that nobody else refers to, circles are all that there can be. A key with a
-- PERIOD refers to all rows that overlap it, and servers before 18 have none.
SELECT format('circle in %s by %s', k.conrelid::regclass, k.conname) AS what, format(
  'WITH RECURSIVE own AS (SELECT ROW(%1$s)::text AS row, ROW(%2$s)::text AS above,'
  ' num_nulls(%2$s) > 0 OR NOT %3$L AND ROW(%1$s)::text = ROW(%2$s)::text AS root FROM %4$s),'
  ' below AS (SELECT row FROM own WHERE root UNION ALL SELECT own.row FROM own'
  ' JOIN below ON own.above = below.row AND NOT own.root)'
  ' SELECT 1 / ((SELECT count(*) FROM below) = (SELECT count(*) FROM own))::int',
  string_agg(quote_ident(theirs.attname), ', ' ORDER BY at),
  string_agg(quote_ident(ours.attname), ', ' ORDER BY at),
  bool_or(NOT ours.attnotnull), k.conrelid::regclass) AS statement
FROM pg_constraint k, unnest(k.conkey, k.confkey) WITH ORDINALITY AS pair (our, their, at)
  JOIN pg_attribute ours ON ours.attnum = our JOIN pg_attribute theirs ON theirs.attnum = their
WHERE k.contype = 'f' AND k.conrelid = k.confrelid AND k.convalidated
  AND to_jsonb(k) ->> 'conperiod' IS DISTINCT FROM 'true' AND ours.attrelid = k.conrelid AND theirs.attrelid = k.conrelid
GROUP BY k.oid, k.conrelid, k.conname, k.conkey
HAVING bool_or(NOT ours.attnotnull) OR NOT EXISTS (
  SELECT FROM pg_constraint u
  WHERE u.conrelid = k.conrelid AND u.contype IN ('p', 'u') AND u.conkey <@ k.conkey)
--- counts
SELECT format('SELECT %L, count(*) FROM %s %s',
  format('"%s"."%s"', replace(n.nspname, '"', '""'), replace(c.relname, '"', '""')),
  CASE WHEN c.relkind = 'r' THEN 'ONLY' END, c.oid::regclass)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND {user tables}
--- constraints that are not validated
SELECT conrelid::regclass::text, contypid::regtype::text, conname
FROM pg_constraint WHERE NOT convalidated ORDER BY 1, 2, 3
--- units
SELECT count(DISTINCT ({0}.tableoid, {0}.ctid)) FILTER (WHERE {0}.ctid IS NOT NULL)
  + count(*) FILTER (WHERE {0}.ctid IS NULL) {1}
