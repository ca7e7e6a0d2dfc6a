-- Look-ups by readable keys; 2,400 orders of 300 customers, four in five in one currency.
CREATE TABLE currency (code char(3) PRIMARY KEY, name text NOT NULL, digits smallint NOT NULL);
CREATE TABLE state (state varchar(12) PRIMARY KEY, final boolean NOT NULL);
CREATE TABLE customer (id integer PRIMARY KEY, email text NOT NULL UNIQUE, currency char(3) NOT NULL REFERENCES currency);
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer NOT NULL REFERENCES customer, state varchar(12) REFERENCES state, currency char(3) NOT NULL REFERENCES currency);
INSERT INTO currency VALUES ('EUR', 'Euro', 2), ('USD', 'Dollar', 2), ('1', 'One', 2), ('XXX', 'None', 0);
INSERT INTO state VALUES ('NEW', false), ('PAID', false), ('DONE', true), ('LOST', true);
INSERT INTO customer SELECT g, 'c' || g || '@x.example', CASE WHEN g % 5 > 0 THEN 'EUR' ELSE 'USD' END FROM generate_series(1, 300) g;
INSERT INTO orders SELECT g, 1 + g % 300, (ARRAY['NEW', 'PAID', 'DONE', 'DONE', NULL])[1 + g % 5], CASE WHEN g % 5 > 0 THEN 'EUR' WHEN g % 2 > 0 THEN '1' ELSE 'USD' END FROM generate_series(1, 2400) g;
