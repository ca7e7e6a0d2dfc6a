SELECT (SELECT array_agg(c.relname::text || c.relrowsecurity ORDER BY c.relname)
    FROM pg_class c WHERE c.relnamespace = 2200 AND c.relname ~ '^(jobs|seen|ticket|kept|stolen)'),
  pg_get_viewdef('public.seen'), (SELECT seqincrement FROM pg_sequence
    WHERE seqrelid = 'public.ticket'::regclass),
  (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'public.jobs'::regclass)
