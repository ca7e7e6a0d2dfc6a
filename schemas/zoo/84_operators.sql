-- Operators, casts, text search configurations, operator classes and a range of one's own.
-- canaries: quokkanary
CREATE TYPE pair AS (a integer, b integer);
CREATE FUNCTION pair_lt(pair, pair) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1.a < $2.a';
CREATE OPERATOR <<< (LEFTARG = pair, RIGHTARG = pair, FUNCTION = pair_lt);
CREATE TEXT SEARCH DICTIONARY plain_dict (TEMPLATE = simple);
CREATE TEXT SEARCH CONFIGURATION plain_words (COPY = simple);
ALTER TEXT SEARCH CONFIGURATION plain_words ALTER MAPPING FOR word WITH plain_dict;
CREATE TABLE uses (id integer PRIMARY KEY, p pair, t text NOT NULL, CHECK (p <<< ROW(1000000, 0)::pair));
CREATE INDEX ON uses USING gin (to_tsvector('plain_words', t));
INSERT INTO uses SELECT i, ROW(i, i)::pair, 'quokkanary ' || i FROM generate_series(1, 150) i;
