-- Collations of columns, domains and indexes.
-- canaries: quokkanary
CREATE COLLATION plain (locale = 'C');
CREATE DOMAIN word AS text COLLATE "C";
CREATE TABLE term (id integer PRIMARY KEY, a text COLLATE "C" NOT NULL UNIQUE, b varchar(20) COLLATE plain, c word, d text COLLATE "POSIX");
CREATE INDEX ON term (a COLLATE "POSIX" DESC NULLS LAST, b text_pattern_ops);
INSERT INTO term SELECT i, 'Quokkanary' || i, 'b' || i % 4, 'c', NULL FROM generate_series(1, 150) i;
