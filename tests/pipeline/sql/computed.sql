CREATE TABLE country (code text PRIMARY KEY, name text NOT NULL);
INSERT INTO country VALUES ('DE', 'Germany'), ('AT', 'Austria');
CREATE TABLE client (id int PRIMARY KEY, code text NOT NULL REFERENCES country, orders int NOT NULL);
CREATE TABLE purchase (
  id int PRIMARY KEY, client_id int NOT NULL REFERENCES client, qty int NOT NULL,
  price numeric(6, 2) NOT NULL, total numeric(9, 2) NOT NULL, twice numeric GENERATED ALWAYS AS
  (total * 2) STORED, serial int UNIQUE, CHECK (total >= 0), CHECK (total >= price));
INSERT INTO client SELECT i, CASE i % 2 WHEN 0 THEN 'DE' ELSE 'AT' END, 3 FROM generate_series(1, 40) i;
INSERT INTO purchase (id, client_id, qty, price, total, serial)
  SELECT i, 1 + i % 40, 1 + i % 4, 5 + i % 7, 424242, i
  FROM generate_series(1, 120) i;
