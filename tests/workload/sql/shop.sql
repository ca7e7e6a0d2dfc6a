CREATE TYPE status AS ENUM ('new', 'paid', 'sent');
CREATE TABLE customers (
    id integer PRIMARY KEY, country text NOT NULL, born date, vip boolean NOT NULL
);
CREATE TABLE orders (
    id integer PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES customers,
    status status NOT NULL, placed timestamp NOT NULL, total numeric(10, 2)
);
CREATE TABLE items (
    order_id integer NOT NULL REFERENCES orders, line smallint NOT NULL,
    quantity integer NOT NULL, note text, PRIMARY KEY (order_id, line)
);
INSERT INTO customers
SELECT i, (ARRAY['be', 'nl', 'de', 'fr'])[1 + (i * 7 % 13) % 4],
    CASE WHEN i % 11 > 0 THEN date '1950-01-01' + (i * 37) % 18000 END, i % 9 = 0
FROM generate_series(1, 300) i;
INSERT INTO orders
SELECT i, 1 + (i * i * {step}) % 300, (ARRAY['new', 'paid', 'sent'])[1 + i % 3]::status,
    timestamp '2024-01-01' + i * interval '3 hours',
    CASE WHEN i % 13 > 0 THEN (i * 7919 % 50000) / 100.0 END
FROM generate_series(1, 1200) i;
INSERT INTO items
SELECT o, l, 1 + (o + l) % 5, CASE WHEN o % 4 = 0 THEN 'note ' || o END
FROM generate_series(1, 1200) o, generate_series(1, 1 + o % 3) l;
ANALYZE;
