-- Options of storage, of indexes and of access methods; clustering; replica identity.
-- canaries: quokkanary
CREATE TABLE stored (id integer PRIMARY KEY WITH (fillfactor = 70), a text, b jsonb COMPRESSION pglz, c point, d integer) WITH (fillfactor = 80, autovacuum_enabled = false);
ALTER TABLE stored ALTER a SET STORAGE EXTERNAL;
INSERT INTO stored SELECT i, 'quokkanary ' || i, '{}', point(i, i), i % 10 FROM generate_series(1, 150) i;
CREATE INDEX ON stored USING brin (d) WITH (pages_per_range = 4);
CREATE INDEX ON stored USING hash (d);
CREATE INDEX ON stored USING spgist (c);
CREATE INDEX by_d ON stored (d DESC NULLS FIRST) INCLUDE (id) WHERE d > 3;
CREATE INDEX ON stored ((d + 1), lower(a));
CREATE UNIQUE INDEX ident ON stored (id, d);
ALTER TABLE stored CLUSTER ON ident;
ALTER TABLE stored ALTER d SET NOT NULL;
ALTER TABLE stored REPLICA IDENTITY FULL;
