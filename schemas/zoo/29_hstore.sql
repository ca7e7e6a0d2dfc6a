-- hstore, of an extension.
-- extension: hstore
-- canaries: quokkanary
CREATE EXTENSION hstore;
CREATE TABLE product (id integer PRIMARY KEY, attrs hstore NOT NULL, more hstore[]);
CREATE INDEX ON product USING gin (attrs);
INSERT INTO product SELECT i, hstore('name', 'quokkanary ' || i), ARRAY[''::hstore] FROM generate_series(1, 150) i;
