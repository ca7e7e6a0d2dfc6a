-- Columns of the market's tables, renumbered by maps that turn the order of keys round; read by test_pipeline_stability.py.

--- region
code, title
--- customer
9000 - id AS id, region, 9000 - referrer AS referrer, tier, email, note, born, credit
--- product
500 - id AS id, title, price, status
--- purchase
70000 - id AS id, 9000 - customer_id AS customer_id, placed, shipped, paid
--- line
70000 - purchase_id AS purchase_id, number, 500 - product_id AS product_id, quantity, price
--- refund
8000 - id AS id, 70000 - purchase_id AS purchase_id, number, reason
