-- Embeddings of the vector extension, with an index.
-- extension: vector
-- canaries: 918273
CREATE EXTENSION vector;
CREATE TABLE embedding (id integer PRIMARY KEY, v vector(3) NOT NULL, loose vector);
CREATE INDEX ON embedding USING hnsw (v vector_l2_ops);
INSERT INTO embedding SELECT i, ('[1,' || i || ',918273]')::vector, '[1,2]' FROM generate_series(1, 150) i;
