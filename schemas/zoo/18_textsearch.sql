-- tsvector and tsquery, one of them generated, with a GIN index.
-- canaries: quokkanary
CREATE TABLE article (id integer PRIMARY KEY, body text NOT NULL, words tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED, own tsvector, query tsquery NOT NULL);
CREATE INDEX ON article USING gin (words);
INSERT INTO article (id, body, own, query) SELECT i, 'the quokkanary sings ' || i, to_tsvector('simple', 'quokkanary ' || i), to_tsquery('simple', 'quokkanary & ! x') FROM generate_series(1, 150) i;
