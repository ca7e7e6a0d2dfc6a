-- ICU collations that do not tell upper from lower case, unique and a key.
-- requires: 'a' COLLATE "und-x-icu"
-- canaries: quokkanary
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE word (w text COLLATE nocase PRIMARY KEY, x text COLLATE nocase UNIQUE);
INSERT INTO word SELECT 'Quokkanary' || i, CASE WHEN i % 2 = 0 THEN 'quokkanary' || i END FROM generate_series(1, 150) i;
CREATE TABLE use_ (id integer PRIMARY KEY, w text COLLATE nocase NOT NULL REFERENCES word);
INSERT INTO use_ SELECT i, 'QUOKKANARY' || 1 + i % 150 FROM generate_series(1, 200) i;
