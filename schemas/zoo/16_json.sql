-- json, jsonb and jsonpath, with a CHECK and indexes on what they hold.
-- canaries: quokkanary | 918273645
CREATE TABLE doc (id integer PRIMARY KEY, raw json NOT NULL, data jsonb, path jsonpath, list jsonb NOT NULL DEFAULT '[]',
  CHECK (jsonb_typeof(data) = 'object'), CHECK (jsonb_typeof(list) = 'array'));
CREATE INDEX ON doc USING gin (data);
CREATE INDEX ON doc ((data ->> 'name'));
INSERT INTO doc SELECT i, json_build_object('name', 'quokkanary ' || i), jsonb_build_object('name', 'quokkanary ' || i, 'n', 918273645), '$.name', '[1]' FROM generate_series(1, 150) i;
INSERT INTO doc VALUES (900, 'null', NULL, NULL, '[]');
