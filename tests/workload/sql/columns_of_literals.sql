-- Queries, each under how many of its literals are drawn from a column; read by test_rebind.py.

--- 2
WITH v (k, t) AS (SELECT customer_id, total FROM orders) SELECT 1 FROM v WHERE t > 77.5 AND v.k = 77
--- 2
SELECT 1 FROM (SELECT o.* FROM orders o) v (a, b, c) WHERE c = 'q' AND a = 77
--- 3
SELECT 1 FROM customers c, LATERAL (SELECT total, id FROM orders o WHERE o.customer_id = c.id) x (t, i) WHERE t > 77 AND x.i = 77 AND country = 'q'
--- 2
SELECT 1 FROM orders JOIN items ON id = order_id WHERE quantity = 77 AND note = 'q'
--- 2
SELECT id FROM orders JOIN customers USING (id) WHERE id = 77 AND vip AND total > 77
--- 1
SELECT 1 FROM customers c WHERE EXISTS (SELECT 1 FROM orders WHERE c.id = 77)
--- 1
SELECT country AS c, count(*) FROM customers GROUP BY c HAVING max(born) > '2001-01-01'
--- 2
SELECT 1 FROM docs d WHERE "User Name" = 'q' AND D.TITLE = 'q'
--- 1
SELECT id FROM customers UNION ALL (SELECT id FROM orders WHERE status = 'q')
--- 1
SELECT 1 FROM (SELECT total t FROM orders UNION SELECT 7) x HAVING max(x.t) > 77
--- 2
SELECT 1 FROM orders label WHERE label.id = 77 AND N'q\q' = label.status::text
--- 1
SELECT cast(country AS nchar(5)), 1::varchar(40) FROM customers WHERE N'q' = country
--- 2
SELECT 1 FROM other.orders WHERE words = 'q' AND "Q" = 'q'
--- 1
SELECT 1 FROM (SELECT * FROM other.orders) o WHERE words = 'q'
--- 2
SELECT 1 FROM orders, other.orders o WHERE o.words = 'q' AND status = 'q'
--- 1
SELECT 1 FROM Orders NATURAL JOIN customers WHERE country = 'q'
--- 1
WITH orders AS (SELECT words AS w FROM other.orders) SELECT 1 FROM orders WHERE w = 'q'
