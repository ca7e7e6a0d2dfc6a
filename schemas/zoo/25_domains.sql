-- Domains with CHECK, NOT NULL and DEFAULT, in arrays as well.
-- canaries: quokkanary
CREATE DOMAIN percent AS integer CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN code AS text NOT NULL CHECK (VALUE ~ '^[A-Z]{3}[0-9]{2}$');
CREATE DOMAIN status AS varchar(10) DEFAULT 'new' CHECK (VALUE IN ('new', 'used', 'gone'));
CREATE DOMAIN label AS text CHECK (char_length(VALUE) <= 40);
CREATE TABLE part (id integer PRIMARY KEY, share percent NOT NULL, code code, status status, label label, shares percent[]);
INSERT INTO part SELECT i, i % 101, 'ABC' || lpad((i % 100)::text, 2, '0'), (ARRAY['new', 'used', 'gone'])[1 + i % 3], 'quokkanary ' || i, ARRAY[1, 2] FROM generate_series(1, 180) i;
