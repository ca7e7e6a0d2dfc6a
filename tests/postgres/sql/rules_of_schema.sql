SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
  a.attgenerated::text
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind <> 'S'
UNION ALL SELECT coalesce(nullif(conrelid, 0)::regclass::text, contypid::regtype::text), conname,
  pg_get_constraintdef(oid), convalidated, '' FROM pg_constraint
WHERE connamespace = '{schema}'::regnamespace
UNION ALL SELECT tablename, indexname, indexdef, true, '' FROM pg_indexes
WHERE schemaname = '{schema}' ORDER BY 1, 2, 3
