-- Stored generated columns: of text, of numbers, unique, NOT NULL, with an index.
-- canaries: quokkanary
CREATE TABLE line (id integer PRIMARY KEY, price numeric(8, 2) NOT NULL, n integer NOT NULL, total numeric GENERATED ALWAYS AS (price * n) STORED, name text NOT NULL, slug text GENERATED ALWAYS AS (lower(replace(name, ' ', '-'))) STORED UNIQUE, year integer GENERATED ALWAYS AS (n + 2000) STORED NOT NULL, CHECK (total >= 0));
CREATE INDEX ON line (year, total);
INSERT INTO line (id, price, n, name) SELECT i, i / 4.0, i % 9, 'Quokkanary ' || i FROM generate_series(1, 160) i;
