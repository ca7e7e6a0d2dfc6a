CREATE TABLE client (id int PRIMARY KEY, "Country" char(2), invoices_count int, count_of_invoices text);
CREATE TABLE invoice (
  id int PRIMARY KEY, client_id int NOT NULL REFERENCES client, client_country char(2),
  tax_exclusive_amount numeric, "TaxAmount" numeric, tax_inclusive_amount numeric);
CREATE TABLE invoice_line (
  invoice_id int NOT NULL REFERENCES invoice, no int, "order" int, "Quantity" int, unit_price numeric,
  list_price numeric, line_amount numeric, PRIMARY KEY (invoice_id, no));
CREATE TABLE basket (id int PRIMARY KEY, total_amount numeric, client_country varchar(2));
CREATE TABLE basket_item (id int PRIMARY KEY, basket_id int REFERENCES basket, qty int, price numeric);
CREATE TABLE offer (qty int, price numeric, discount numeric, amount numeric, total int UNIQUE);
