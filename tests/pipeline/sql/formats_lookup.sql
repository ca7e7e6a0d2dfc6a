-- A look-up with an expression that texts as drawn do not pass.
CREATE TABLE genres (id int PRIMARY KEY, name text NOT NULL, rank text NOT NULL);
CREATE INDEX ON genres ((rank::int));
CREATE TABLE people (id int PRIMARY KEY, email text, genre_id int REFERENCES genres);
INSERT INTO genres SELECT i, 'g' || i, i::text FROM generate_series(1, 9) i;
INSERT INTO people SELECT i, 'a' || i, 1 + i % 9 FROM generate_series(1, 200) i;
