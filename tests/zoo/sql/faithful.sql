-- What is asked of a source and of its clone; read by faithful.py.

--- tables
SELECT c.oid::bigint, n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY(%s::"char"[]) AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND c.relpersistence <> 't'
ORDER BY 2, 3
--- whether a table is populated
SELECT relispopulated AND EXISTS (
  SELECT FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
) FROM pg_class c WHERE oid = %s
--- columns
SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname !~ '^pg_'
  AND n.nspname <> 'information_schema' AND {condition}
ORDER BY 1, 2, 3
--- of types that are made
(t.typtype IN ('d', 'c', 'r', 'm') OR t.typcategory = 'A')
--- constraints
SELECT n.nspname, c.relname, k.conname, pg_get_constraintdef(k.oid)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype IN ('f', 'c') AND k.convalidated AND k.conparentid = 0 AND k.coninhcount = 0
  AND n.nspname <> 'information_schema'
ORDER BY 1, 2, 3
--- a constraint once more
DELETE FROM pg_catalog.pg_statistic; ALTER TABLE {} ADD CONSTRAINT {} {}
--- constraints that are not validated
SELECT conrelid::regclass::text, contypid::regtype::text, conname
FROM pg_constraint WHERE NOT convalidated ORDER BY 1, 2, 3
--- unique indexes of a table
SELECT FROM pg_index WHERE indrelid = %s AND (indisunique OR indisexclusion)
--- units
SELECT count(DISTINCT ({0}.tableoid, {0}.ctid)) FILTER (WHERE {0}.ctid IS NOT NULL)
  + count(*) FILTER (WHERE {0}.ctid IS NULL) {1}
