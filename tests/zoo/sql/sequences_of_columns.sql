SELECT s.oid::regclass::text, n.nspname, c.relname, a.attname FROM pg_depend d
JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
JOIN pg_class c ON c.oid = d.refobjid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
WHERE d.deptype IN ('a', 'i') AND d.refobjsubid > 0
  AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
