-- Orders and identities that hold, or that {off} and {late} break; read by test_metrics_statistics.py.
CREATE TABLE items (
  id int PRIMARY KEY, begun date, ended date, price numeric(9, 2), amount int, total numeric(12, 2),
  net numeric(12, 2), tax numeric(12, 2), same int, note text, gone int, paid bool, size float8, level int,
  tiny float8, ancient date
);
INSERT INTO items
SELECT i, day, day + {late}, price, 1 + i % 9, price * (1 + i % 9) + {off}, .8 * price,
  .2 * price + {off}, 1 + i % 9, repeat('x', {long}), NULL, i % {long} = 0,
  exp(i / 200.0), i % 60,
  i * 1e-300, day - 800000
FROM (
  SELECT i, date '2024-01-01' + i % 300 AS day, 5 + (i * i % 997)::numeric / 4 AS price
  FROM generate_series(1, {rows}) AS i
) AS r;
CREATE TABLE few (k int PRIMARY KEY, n int);
INSERT INTO few SELECT i, i * {off} FROM generate_series(1, 9) AS i;
ANALYZE;
