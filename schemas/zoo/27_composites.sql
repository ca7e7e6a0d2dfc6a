-- Composite types, nested, in arrays, with domains in them, NOT NULL.
-- canaries: quokkanary | 918273645
CREATE DOMAIN zip AS text CHECK (VALUE ~ '^[0-9]{5}$');
CREATE TYPE street AS (name text, no integer);
CREATE TYPE address AS (street street, zip zip, tags text[]);
CREATE TABLE customer (id integer PRIMARY KEY, home address NOT NULL, work address, all_ address[] NOT NULL, CHECK ((home).zip IS NOT NULL));
INSERT INTO customer SELECT i, ROW(ROW('quokkanary ' || i, 918273645), '12345', ARRAY['quokkanary'])::address, NULL, ARRAY[ROW(NULL, '54321', NULL)::address] FROM generate_series(1, 150) i;
CREATE TABLE whole_row (id integer PRIMARY KEY, was customer);
INSERT INTO whole_row SELECT id, c FROM customer c;
