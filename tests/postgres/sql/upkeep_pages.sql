SELECT c.relname, c.relpages, c.relallvisible, c.reltuples::bigint,
  pg_relation_size(c.oid) / current_setting('block_size')::int
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'm')
