-- Conditions on conditions: implications, kinds with fields of their own, one of several, CASE, equal NULLs.
-- canaries: quokkanary
CREATE TABLE customer (id serial PRIMARY KEY, name text NOT NULL);
CREATE TABLE product (id serial PRIMARY KEY, name text NOT NULL);
CREATE TABLE document (
  id serial PRIMARY KEY, customer integer NOT NULL REFERENCES customer,
  kind text NOT NULL CHECK (kind IN ('offer', 'invoice', 'credit')),
  state text NOT NULL DEFAULT 'draft' CHECK (state IN ('draft', 'sent', 'paid', 'void')),
  number text, sent date, paid date, reason text, corrects integer REFERENCES document,
  CONSTRAINT numbered CHECK (state = 'draft' OR number IS NOT NULL),
  CONSTRAINT sent_when_sent CHECK ((state IN ('sent', 'paid')) = (sent IS NOT NULL)),
  CONSTRAINT paid_when_paid CHECK (CASE state WHEN 'paid' THEN paid >= sent ELSE paid IS NULL END),
  CONSTRAINT credits_correct CHECK (kind <> 'credit' OR (corrects IS NOT NULL AND reason IS NOT NULL)),
  CONSTRAINT others_do_not CHECK (kind = 'credit' OR corrects IS NULL)
);
CREATE TABLE line (
  id serial PRIMARY KEY, document integer NOT NULL REFERENCES document, product integer REFERENCES product,
  price numeric(10,2) NOT NULL, quantity integer NOT NULL, display text, note text,
  CONSTRAINT goods CHECK (display IS NOT NULL OR (product IS NOT NULL AND quantity > 0)),
  CONSTRAINT headings CHECK (display IS NULL OR (product IS NULL AND price = 0 AND quantity = 0 AND note IS NOT NULL))
);
CREATE TABLE payment (
  id serial PRIMARY KEY, document integer NOT NULL REFERENCES document, card text, iban text, cash boolean,
  refund_of integer, refunded timestamp, amount numeric(10,2) NOT NULL,
  CONSTRAINT one_way CHECK (num_nonnulls(card, iban, cash) = 1),
  CONSTRAINT refunds CHECK ((refund_of IS NULL) = (refunded IS NULL)),
  CONSTRAINT signs CHECK (CASE WHEN refund_of IS NULL THEN amount > 0 ELSE amount < 0 END)
);
INSERT INTO customer (name) SELECT 'quokkanary ' || i FROM generate_series(1, 400) i;
INSERT INTO product (name) SELECT 'quokkanary ' || i FROM generate_series(1, 50) i;
INSERT INTO document (customer, kind, state, number, sent, paid)
  SELECT 1 + i * 7 % 400, CASE WHEN i % 5 = 0 THEN 'offer' ELSE 'invoice' END, s, CASE WHEN s <> 'draft' THEN 'Q' || i END,
    CASE WHEN s IN ('sent', 'paid') THEN date '2023-01-01' + i % 300 END, CASE WHEN s = 'paid' THEN date '2023-01-01' + i % 300 + i % 30 END
  FROM generate_series(1, 1500) i, LATERAL (SELECT (ARRAY['draft', 'sent', 'paid', 'paid', 'paid', 'void'])[1 + i % 6] AS s) x;
INSERT INTO document (customer, kind, state, number, sent, reason, corrects)
  SELECT customer, 'credit', 'sent', number || 'K', sent + 40, 'quokkanary ' || number, id FROM document WHERE state = 'paid' AND id % 9 = 0;
INSERT INTO line (document, product, price, quantity, display, note)
  SELECT 1 + i % 1500, CASE WHEN i % 15 > 0 THEN 1 + i % 50 END, CASE WHEN i % 15 > 0 THEN i % 90 + 0.5 ELSE 0 END, CASE WHEN i % 15 > 0 THEN 1 + i % 6 ELSE 0 END,
    CASE WHEN i % 30 = 0 THEN 'section' WHEN i % 15 = 0 THEN 'note' END, CASE WHEN i % 15 = 0 THEN 'quokkanary ' || i END FROM generate_series(1, 4000) i;
INSERT INTO payment (document, card, iban, cash, refund_of, refunded, amount)
  SELECT 1 + i % 1500, CASE WHEN i % 10 < 6 THEN 'quokkanary ' || i END, CASE WHEN i % 10 IN (6, 7, 8) THEN 'QZ' || i END, CASE WHEN i % 10 = 9 THEN true END,
    CASE WHEN i % 20 = 0 THEN i - 1 END, CASE WHEN i % 20 = 0 THEN timestamp '2023-06-01' + i * interval '1 h' END, (10 + i % 400) * CASE WHEN i % 20 = 0 THEN -1 ELSE 1 END
  FROM generate_series(1, 1200) i;
