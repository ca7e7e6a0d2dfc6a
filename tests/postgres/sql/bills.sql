CREATE TYPE state AS ENUM ('open', 'paid');
CREATE TABLE customer (id int PRIMARY KEY, country char(2) NOT NULL, bills int NOT NULL DEFAULT -1);
CREATE TABLE bill (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer_id int NOT NULL REFERENCES customer,
  country varchar(2),
  net numeric(8, 2) NOT NULL DEFAULT 7,
  gross numeric(8, 2) NOT NULL,
  halves smallint GENERATED ALWAYS AS (gross * 2) STORED,
  state state,
  entered serial,
  note text,
  CHECK (gross >= net)
);
CREATE TABLE line (bill_id int NOT NULL REFERENCES bill, qty int NOT NULL, price numeric(6, 2));
CREATE INDEX ON bill (gross);
CREATE VIEW owed AS SELECT customer_id, sum(gross) AS owed FROM bill GROUP BY 1;
