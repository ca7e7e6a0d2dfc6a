-- Texts of a megabyte and long keys.
-- canaries: quokkanary
CREATE TABLE blob (id integer PRIMARY KEY, body text NOT NULL, key varchar(2000) UNIQUE, tail text);
INSERT INTO blob SELECT i, repeat('quokkanary ', CASE i WHEN 1 THEN 95000 ELSE i END), repeat('k', 1000 + i), NULL FROM generate_series(1, 130) i;
