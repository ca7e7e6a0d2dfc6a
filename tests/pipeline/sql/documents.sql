CREATE TABLE event (
  id integer PRIMARY KEY, d jsonb NOT NULL, plain json,
  kind text GENERATED ALWAYS AS (d ->> 'kind') STORED,
  big boolean GENERATED ALWAYS AS ((d #>> '{sum,net}')::numeric > 500) STORED,
  CHECK (jsonb_array_length(d -> 'lines') > 0),
  quiet jsonb);
INSERT INTO event (id, d, quiet) SELECT i,
  jsonb_build_object('kind', CASE i % 4 WHEN 0 THEN 'in' ELSE 'out' END,
    'sum', jsonb_build_object('net', i % 1000), 'lines', '[1]'::jsonb)
  || jsonb_build_object('user_' || i, i, CASE i WHEN 7 THEN 'canary' ELSE 'all' END, 'x')
  || CASE i % 4
    WHEN 0 THEN jsonb_build_object('tags',
      CASE i % 8 WHEN 0 THEN '["a"]' ELSE '["a", "b"]' END::jsonb)
    ELSE jsonb_build_object('on', jsonb_build_object('os', 'ios')) END,
  '{"silent": 1}' FROM generate_series(1, 4000) i
