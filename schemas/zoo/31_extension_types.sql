-- Types of several extensions: ltree, cube, isn, seg, intarray's operators.
-- extension: ltree cube isn seg
-- canaries: quokkanary
CREATE EXTENSION ltree; CREATE EXTENSION cube; CREATE EXTENSION isn; CREATE EXTENSION seg;
CREATE TABLE node (id integer PRIMARY KEY, path ltree NOT NULL, pattern lquery, at cube, isbn isbn13, width seg, text_query ltxtquery);
CREATE INDEX ON node USING gist (path);
INSERT INTO node SELECT i, ('top.n' || i || 'quokkanary')::ltree, ('*.n' || i || 'quokkanary')::lquery, cube(i), '978-0-306-40615-7', '1 .. 2', ('n' || i || 'quokkanary')::ltxtquery FROM generate_series(1, 150) i;
