-- hstore, of an extension; two more that the text of a function alone needs.
-- extension: hstore pgcrypto fuzzystrmatch
-- canaries: quokkanary
CREATE EXTENSION hstore;
CREATE EXTENSION pgcrypto; CREATE EXTENSION fuzzystrmatch;
CREATE FUNCTION ticket() RETURNS text LANGUAGE plpgsql AS $f$ BEGIN
RETURN encode(gen_random_bytes(4), 'hex') || soundex('Quokka'); END $f$;
CREATE TABLE product (id integer PRIMARY KEY, attrs hstore NOT NULL, more hstore[]);
CREATE INDEX ON product USING gin (attrs);
INSERT INTO product SELECT i, hstore('name', 'quokkanary ' || i), ARRAY[''::hstore] FROM generate_series(1, 150) i;
