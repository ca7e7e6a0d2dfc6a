DO $$
DECLARE item record;
BEGIN
  FOR item IN SELECT extname FROM pg_extension WHERE extname <> 'plpgsql' LOOP
    EXECUTE format('DROP EXTENSION IF EXISTS %I CASCADE', item.extname);
  END LOOP;
  FOR item IN SELECT nspname FROM pg_namespace
      WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public') LOOP
    EXECUTE format('DROP SCHEMA %I CASCADE', item.nspname);
  END LOOP;
  LOOP
    SELECT replace(o.type, 'statistics object', 'statistics') AS kind, o.identity INTO item
      FROM pg_depend d, pg_identify_object(d.classid, d.objid, 0) o
      WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = to_regnamespace('public')
        AND d.deptype = 'n'
        -- A sequence of an identity column goes with its table, and not by itself.
        AND NOT EXISTS (SELECT FROM pg_depend i
          WHERE (i.classid, i.objid, i.deptype) = (d.classid, d.objid, 'i')) LIMIT 1;
    EXIT WHEN NOT FOUND;
    EXECUTE format('DROP %s %s CASCADE', item.kind, item.identity);
  END LOOP;
END $$
