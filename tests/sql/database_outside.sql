SELECT (
  (SELECT (datdba, datacl, datconnlimit, dattablespace, datistemplate, datallowconn)::text
   FROM pg_database WHERE oid = d.oid),
  (SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = d.oid),
  (SELECT count(*) FROM pg_shdescription WHERE objoid = d.oid),
  (SELECT count(*) FROM pg_prepared_xacts WHERE database = d.datname),
  (SELECT count(*) FROM pg_stat_activity
   WHERE datid = d.oid AND pid <> pg_backend_pid() AND backend_type = 'client backend'),
  (SELECT count(*) FROM pg_subscription WHERE subdbid = d.oid),
  (SELECT count(*) FROM pg_event_trigger),
  (SELECT count(*) FROM pg_foreign_data_wrapper)
)::text FROM pg_database d WHERE datname = current_database()
