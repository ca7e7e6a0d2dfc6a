-- Queries whose new literals must find rows; read by test_rebind.py.

--- 1
SELECT * FROM orders WHERE id = 5 AND status = 'paid' AND placed < '2020-01-01'
--- 2
SELECT * FROM docs a, docs b WHERE a.title = 'A' AND a.id = 3 AND b.id = 4 AND b.id <> a.id
--- 3
SELECT 1 FROM customers c JOIN orders o ON o.customer_id = c.id JOIN items i ON i.order_id = o.id WHERE c.id = 7 AND o.placed = '2020-01-01' AND i.line = 9 AND i.order_id = 4
--- 4
SELECT 1 FROM items i, orders o, customers c WHERE c.id = o.customer_id AND o.id = i.order_id AND c.born = '1900-01-01' AND o.id IN (3, 4) AND i.quantity >= 77
--- 5
SELECT 1 FROM customers JOIN docs USING (id) WHERE country = 'q' AND title = 'q'
--- 6
WITH v AS (SELECT o.id AS oid FROM orders o JOIN customers c ON c.id = o.customer_id WHERE c.id = 7 AND o.id = 8) SELECT * FROM v
