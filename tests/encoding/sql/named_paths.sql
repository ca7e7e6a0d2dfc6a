-- Paths of documents that a schema names; read by test_encoding_documents.py.
CREATE TYPE mood AS ENUM ('a');
CREATE FUNCTION public.jsonb_extract_path_text(jsonb, integer) RETURNS text
  IMMUTABLE LANGUAGE sql AS $$ SELECT 'x' $$;
CREATE TABLE t (
  d jsonb, e json, plain text,
  total numeric GENERATED ALWAYS AS ((d ->> 'total')::numeric(10, 2)) STORED,
  who bigint GENERATED ALWAYS AS ((d #>> '{user,"the id"}')::bigint) STORED,
  name text GENERATED ALWAYS AS (lower((d -> 'user') ->> 'name')) STORED,
  CHECK ((d ->> 'total') IS NOT NULL AND d ? 'other'),
  CHECK (((d ->> 'is')::boolean) AND jsonb_extract_path_text(d, 'x.y', 'z') <> ''),
  CHECK ((d ->> 'mood')::mood = 'a' AND d ->> 0 <> '' AND d ->> plain <> ''),
  CHECK (d ->> 'user' <> '' AND public.jsonb_extract_path_text(d, 1) = 'x'));
CREATE INDEX ON t ((e ->> 'kind'));
