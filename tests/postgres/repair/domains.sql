-- case: domains are rules too
CREATE DOMAIN digits AS text CHECK (VALUE ~ '^[0-9]+$');
CREATE DOMAIN zip AS digits CHECK (length(VALUE) = 5);
CREATE DOMAIN listed AS text CHECK (VALUE ~ 'x');
CREATE TABLE t (z zip, d digits NOT NULL, many listed[]);
-- rows: t (z, d, many)
VALUES ('12345', '1', '{}'), ('12', 'y', '{x}'), ('x', '3', NULL)
-- then:
SELECT count(*), bool_and(z = '12345') FROM t
--> 3, True

-- case: a domain over an enum is judged
CREATE TYPE colour AS ENUM ('red', 'blue');
CREATE DOMAIN warm AS colour CHECK (VALUE <> 'blue');
CREATE TABLE t (id int, w warm);
-- rows: t (id, w)
VALUES (1, 'red'), (2, 'blue'), (3, 'red')
-- then:
SELECT count(*) FROM t WHERE w::text = 'blue'
--> 0

-- case: domains over types of a fixed length are read whole
-- The SQL names `character` and `bit` mean a single one: every value seemed to be broken.
CREATE DOMAIN money_code AS char(3) CHECK (VALUE ~ '^[A-Z]{3}$');
CREATE DOMAIN mask AS bit(4) CHECK (length(VALUE) = 4);
CREATE TABLE t (code money_code, bits mask NOT NULL);
-- rows: t (code, bits)
VALUES ('EUR', '0101'), ('USD', '1111'), ('eur', '0000'), (NULL, '1000')
-- then:
SELECT count(*), count(code), count(DISTINCT bits) FROM t
--> 4, 3, 4
