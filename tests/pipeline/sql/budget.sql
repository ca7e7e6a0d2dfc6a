CREATE TABLE users (id int PRIMARY KEY, email text NOT NULL, plan text NOT NULL, gift text,
  until date NOT NULL);
CREATE TABLE orders (id int PRIMARY KEY, user_id int NOT NULL REFERENCES users,
  amount int NOT NULL, placed date NOT NULL, until date NOT NULL);
CREATE TABLE refunds (id int PRIMARY KEY, user_id int NOT NULL REFERENCES users,
  amount int NOT NULL, placed date NOT NULL, until date NOT NULL);
INSERT INTO users SELECT i, 'u' || i || '@example.org',
  (ARRAY['gold', 'silver', 'tin'])[1 + i % 3], CASE WHEN i % 9 = 0 THEN NULL ELSE '' END,
  '9999-01-01' FROM generate_series(1, {units}) i;
INSERT INTO orders SELECT i, 1 + i % {writers}, 1000 + i * 7 % 3000,
  date '2021-03-01' + i % 200, date '9999-01-01' FROM generate_series(1, {orders}) i;
INSERT INTO refunds VALUES (1, 1, 5, '2021-04-01', '9999-01-01');
