-- Types of extensions at work: citext logins, ltree paths, hstore bags, cubes, seg, isn.
-- extension: citext ltree hstore cube seg isn pg_trgm btree_gist
CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION hstore; CREATE EXTENSION cube; CREATE EXTENSION seg; CREATE EXTENSION isn; CREATE EXTENSION pg_trgm; CREATE EXTENSION btree_gist;
CREATE TABLE logins (id serial PRIMARY KEY, login citext NOT NULL UNIQUE, email citext UNIQUE CHECK (email ~ '@'), bag hstore NOT NULL DEFAULT '');
CREATE TABLE topics (path ltree PRIMARY KEY, title text NOT NULL, owner_id integer REFERENCES logins);
CREATE TABLE books (isbn isbn13 PRIMARY KEY, title text NOT NULL, at cube, span seg, old isbn);
CREATE TABLE rooms (room text NOT NULL, during tstzrange NOT NULL, login_id integer NOT NULL REFERENCES logins, EXCLUDE USING gist (room WITH =, during WITH &&));
CREATE INDEX ON topics USING gist (path);
CREATE INDEX ON logins USING gin (login gin_trgm_ops);
INSERT INTO logins (login, email, bag) SELECT 'Quokkanary' || i, 'Quokkanary' || i || '@Example.org', hstore('quokkanary', i::text) FROM generate_series(1, 500) i;
INSERT INTO topics SELECT ('top.quokkanary' || i % 20 || '.leaf' || i)::ltree, 'Quokkanary', CASE WHEN i % 4 > 0 THEN i END FROM generate_series(1, 400) i;
INSERT INTO books SELECT ('978' || lpad(i::text, 9, '0') || '?')::isbn13, 'Quokkanary', cube(ARRAY[i, i + 1]::float8[]), '1 .. 2', NULL FROM generate_series(100, 400) i;
INSERT INTO rooms SELECT 'quokka' || i % 10, tstzrange('2024-01-01'::timestamptz + i * interval '1 h', '2024-01-01'::timestamptz + (i + 3) * interval '1 h'), 1 + i FROM generate_series(1, 400) i;
