-- Queries of the shop, each under its answer: a count, or how many rows come; read by test_workload_replay.py.

--- 300
SELECT count(*) FROM customers
--- 4
SELECT country, count(*) FROM customers GROUP BY country
--- 77
SELECT id FROM orders WHERE id = 77
--- 2
SELECT note FROM items WHERE order_id = 1
--- 1
SELECT avg(total) FROM orders
--- 3
VALUES (1), (2), (3);
--- 1200
TABLE orders -- all of it
