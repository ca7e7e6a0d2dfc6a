SELECT (
  (SELECT count(*) FROM pg_am),
  (SELECT count(*) FROM pg_attrdef),
  (SELECT count(*) FROM pg_cast),
  (SELECT count(*) FROM pg_class),
  (SELECT count(*) FROM pg_collation),
  (SELECT count(*) FROM pg_constraint),
  (SELECT count(*) FROM pg_conversion),
  (SELECT count(*) FROM pg_default_acl),
  (SELECT count(*) FROM pg_extension),
  (SELECT count(*) FROM pg_language),
  (SELECT count(*) FROM pg_largeobject_metadata),
  (SELECT count(*) FROM pg_opclass),
  (SELECT count(*) FROM pg_operator),
  (SELECT count(*) FROM pg_opfamily),
  (SELECT count(*) FROM pg_policy),
  (SELECT count(*) FROM pg_proc),
  (SELECT count(*) FROM pg_publication),
  (SELECT count(*) FROM pg_rewrite),
  (SELECT count(*) FROM pg_statistic_ext),
  (SELECT count(*) FROM pg_transform),
  (SELECT count(*) FROM pg_trigger),
  (SELECT count(*) FROM pg_ts_config),
  (SELECT count(*) FROM pg_ts_dict),
  (SELECT count(*) FROM pg_ts_parser),
  (SELECT count(*) FROM pg_ts_template),
  (SELECT count(*) FROM pg_type),
  (SELECT string_agg((oid, nspowner, nspacl)::text, ',' ORDER BY nspname)
   FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'),
  (SELECT md5(string_agg((oid, proacl)::text, ',' ORDER BY oid)) FROM pg_proc
   WHERE proacl IS NOT NULL),
  (SELECT md5(string_agg((oid, relacl)::text, ',' ORDER BY oid)) FROM pg_class
   WHERE relacl IS NOT NULL),
  (SELECT md5(string_agg((objoid, classoid, description)::text, ',' ORDER BY classoid, objoid))
   FROM pg_description WHERE classoid = 'pg_namespace'::regclass)
)::text
