INSERT INTO region SELECT 'r' || i, 'Region ' || i FROM generate_series(1, 4) i;
INSERT INTO customer (id, region, referrer, tier, email, note, born, credit)
  SELECT i, 'r' || 1 + i * i % 4, CASE WHEN i % 3 = 0 THEN 1 + i / 3 END,
    (ARRAY['basic', 'basic', 'silver', 'gold'])[1 + i % 4]::tier, 'c' || i || '@shop.example',
    CASE WHEN i % 2 = 0 THEN 'note number ' || i END,
    CASE WHEN i % 7 > 0 THEN date '1950-01-01' + (i * 7919 % 18000) END, i * 37 % 5000
  FROM generate_series(1, {n}) i;
INSERT INTO product (id, title, price, status)
  SELECT i, 'Thing ' || i, 1 + i * 13 % 90, CASE WHEN i % 5 = 0 THEN 'ended' ELSE 'active' END
  FROM generate_series(1, greatest({n} / 6, 1)) i;
INSERT INTO purchase (id, customer_id, placed, shipped, paid)
  SELECT i, CASE WHEN i % 10 > 0 THEN 1 + (i::bigint * i * 31) % {n} END, t,
    CASE WHEN i % 4 > 0 THEN t + (i % 20) * interval '1 day' END, i % 5 > 0
  FROM generate_series(1, 2 * {n}) i,
    LATERAL (SELECT timestamp '2020-01-01' + (i * 6007 % 30000) * interval '1 hour' AS t) x;
INSERT INTO line (purchase_id, number, product_id, quantity, price)
  SELECT p.id, k, CASE WHEN (p.id + k) % 8 > 0 THEN 1 + (p.id * k * 7) % m.most END,
    1 + (p.id + 3 * k) % 6, 1 + (p.id * 11) % 80
  FROM purchase p, LATERAL generate_series(1, 1 + (p.id % 3)::int) k,
    (SELECT count(*) AS most FROM product) m;
INSERT INTO refund (purchase_id, number, reason)
  SELECT purchase_id, number, CASE WHEN purchase_id % 2 = 0 THEN 'broken' END
  FROM line WHERE (purchase_id * 3 + number) % 9 = 0;
SELECT setval('customer_id_seq', {n}), setval('purchase_id_seq', 2 * {n}),
  setval('product_id_seq', greatest({n} / 6, 1));
