-- Tables without any key, with duplicate rows and rows of NULLs.
-- canaries: quokkanary
CREATE TABLE heap (a integer, b text, c timestamptz);
INSERT INTO heap SELECT i % 5, 'quokkanary ' || i, now() FROM generate_series(1, 150) i;
INSERT INTO heap SELECT NULL, NULL, NULL FROM generate_series(1, 20);
CREATE TABLE facts (customer_id integer, product_id integer, amount numeric);
INSERT INTO facts SELECT i % 30, i % 7, i * 1.5 FROM generate_series(1, 200) i;
CREATE TABLE blank (a integer, b text NOT NULL);
