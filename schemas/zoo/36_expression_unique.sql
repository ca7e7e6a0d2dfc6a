-- UNIQUE indexes over expressions.
-- canaries: quokkanary
CREATE FUNCTION folded(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT upper(btrim($1)) $$;
CREATE TABLE login (id integer PRIMARY KEY, mail text NOT NULL, nick varchar(30), at timestamp NOT NULL, a integer NOT NULL, b integer NOT NULL, data jsonb NOT NULL DEFAULT '{}');
CREATE UNIQUE INDEX ON login (lower(mail));
CREATE UNIQUE INDEX ON login (folded(nick));
CREATE UNIQUE INDEX ON login ((at::date), a);
CREATE UNIQUE INDEX ON login (least(a, b), greatest(a, b));
CREATE UNIQUE INDEX ON login ((data ->> 'ref')) WHERE data ? 'ref';
INSERT INTO login SELECT i, 'Quokkanary' || i || '@x.org', 'quokkanary' || i, '2024-01-01'::timestamp + i * interval '9 h', i, i * 3, jsonb_build_object('ref', 'quokkanary' || i) FROM generate_series(1, 160) i;
