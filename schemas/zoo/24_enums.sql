-- Enums with odd labels, in keys, arrays, defaults and several schemas.
CREATE SCHEMA lists;
CREATE TYPE lists.mood AS ENUM ('sad', 'It''s "ok"', 'new
line', 'ÄÖÜ', '', 'null');
CREATE TYPE mood AS ENUM ('one');
CREATE TYPE nothing AS ENUM ();
CREATE TABLE feeling (mood lists.mood PRIMARY KEY, weight integer NOT NULL);
INSERT INTO feeling SELECT m, 1 FROM unnest(enum_range(NULL::lists.mood)) m;
CREATE TABLE person (id integer PRIMARY KEY, now lists.mood NOT NULL DEFAULT 'sad' REFERENCES feeling, past lists.mood[], single mood, never nothing);
INSERT INTO person SELECT i, (enum_range(NULL::lists.mood))[1 + i % 6], ARRAY['sad', '']::lists.mood[], 'one', NULL FROM generate_series(1, 180) i;
