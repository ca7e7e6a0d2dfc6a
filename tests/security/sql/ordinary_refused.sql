SELECT set_config('app.tenant', '1', true)
SELECT setseed(0.5)
SELECT nextval('s')
SELECT setval('s', 1)
SELECT pg_notify('a', 'b')
SELECT pg_sleep(0)
SELECT pg_advisory_lock(1)
SELECT pg_try_advisory_xact_lock(1)
SELECT lo_get(1)
SELECT lo_from_bytea(0, 'a')
SELECT query_to_xml('select 1', true, true, '')
SELECT table_to_xml('pg_authid', true, true, '')
SELECT pg_stat_reset()
SELECT pg_stat_file('/etc/hostname')
SELECT pg_ls_dir('/')
SELECT pg_relation_filepath('victim')
SELECT pg_export_snapshot()
SELECT pg_logical_emit_message(true, 'a', 'b')
SELECT pg_cancel_backend(1)
SELECT ('server_version'::text).current_setting
SELECT * FROM pg_hba_file_rules
SELECT n FROM victim GROUP BY ALL
SELECT * FROM GRAPH_TABLE (g MATCH (v) COLUMNS (v.n))
SELECT lag(n) IGNORE NULLS OVER (ORDER BY name) FROM victim
EXPLAIN DELETE FROM victim
DELETE FROM victim
SELECT substring(name for update) FROM victim FOR UPDATE
