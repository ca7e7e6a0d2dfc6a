-- Long values that compression alone brings into an index: texts, bytes, documents, arrays, included columns.
-- canaries: Quokkanary
CREATE TABLE pages (id integer PRIMARY KEY, site integer NOT NULL, path text NOT NULL, body text, title text, digest bytea UNIQUE, data jsonb, tags text[], flags bit varying, seen date NOT NULL);
CREATE UNIQUE INDEX pages_path ON pages (site, lower(path));
CREATE INDEX pages_title ON pages (seen) INCLUDE (title);
CREATE INDEX pages_body ON pages USING brin (body);
CREATE INDEX pages_data ON pages (data);
CREATE INDEX pages_tags ON pages (tags);
CREATE INDEX pages_flags ON pages (flags) WHERE site > 0;
INSERT INTO pages SELECT i, i % 7, repeat('Quokkanary/', 2000) || i, repeat('Quokkanary ', 3000), repeat('Quokkanary ', 1000), convert_to(repeat('Quokkanary', 2000) || i, 'UTF8'), jsonb_build_object('text', repeat('Quokkanary', 2000)), array_fill('Quokkanary'::text, ARRAY[900]), repeat('01', 10000)::varbit, '2024-01-01'::date + i FROM generate_series(1, 400) i;
