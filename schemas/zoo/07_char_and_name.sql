-- The internal types "char" and name, also as keys.
-- canaries: quokkanary
CREATE TABLE kind (code "char" PRIMARY KEY, label name NOT NULL UNIQUE);
INSERT INTO kind SELECT chr(96 + i)::"char", 'quokkanary_' || i FROM generate_series(1, 20) i;
CREATE TABLE thing (id integer PRIMARY KEY, kind "char" REFERENCES kind, owner name, flags "char"[]);
INSERT INTO thing SELECT i, chr(97 + i % 20)::"char", 'quokkanary' || i, ARRAY['a', 'b']::"char"[] FROM generate_series(1, 150) i;
