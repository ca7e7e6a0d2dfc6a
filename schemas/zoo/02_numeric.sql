-- numeric with and without precision, of negative scale, NaN and infinities.
-- canaries: 918273.645 | 777777.123457
CREATE TABLE price (
  id integer PRIMARY KEY, net numeric(10, 2) NOT NULL, rate numeric(3, 2), free numeric, rounded numeric(6, -2), tiny numeric(2, 5));
INSERT INTO price SELECT i, i * 1.25, (i % 10) / 10.0, i * 0.001, i * 100, 0.0001 * (i % 9)::numeric / 10 FROM generate_series(1, 160) i;
INSERT INTO price VALUES (900, 777777.12, NULL, 'NaN', NULL, NULL), (901, 1, 1, 'Infinity', 99900, NULL),
  (902, 2, 9.99, '-Infinity', NULL, NULL), (903, 3, NULL, 918273.645, NULL, NULL), (904, 3, NULL, 777777.123457, NULL, NULL);
