SELECT current_setting('server_version'), current_setting('app.tenant', true)
SELECT pg_size_pretty(pg_total_relation_size('victim')), pg_indexes_size('victim')
SELECT to_regclass('victim'), to_regtype('int'), to_regproc('now')
SELECT has_schema_privilege('public', 'usage'), has_database_privilege(current_database(), 'connect')
SELECT col_description('victim'::regclass, 1), pg_get_indexdef(0), pg_get_userbyid(10)
SELECT txid_current(), pg_current_snapshot()
SELECT currval('nowhere')
SELECT n FROM victim FOR UPDATE
SELECT n FROM victim FOR KEY SHARE SKIP LOCKED
SHOW search_path
EXPLAIN VERBOSE TABLE victim
