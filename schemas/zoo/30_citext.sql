-- citext, unique and in a key that others refer to.
-- extension: citext
-- canaries: quokkanary
CREATE EXTENSION citext;
CREATE TABLE member (mail citext PRIMARY KEY, nick citext NOT NULL UNIQUE, town citext);
INSERT INTO member SELECT 'Quokkanary' || i || '@Example.org', 'nickQuokkanary' || i, (ARRAY['Oslo', 'oslo', 'Rome'])[1 + i % 3] FROM generate_series(1, 150) i;
CREATE TABLE post (id integer PRIMARY KEY, author citext NOT NULL REFERENCES member);
INSERT INTO post SELECT i, 'quokkanary' || 1 + i % 150 || '@EXAMPLE.org' FROM generate_series(1, 200) i;
