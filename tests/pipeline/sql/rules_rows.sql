INSERT INTO client SELECT i, 'c' || i, false, 'top' FROM generate_series(1, 60) i;
INSERT INTO sale
  SELECT i, 1 + i % 60, date 'infinity', date '2020-01-01' + i % 90,
    CASE i % 2 WHEN 0 THEN 'sent' ELSE 'paid' END, 2 - i % 9, 1, 77,
    CASE i % 3 WHEN 0 THEN float8 'NaN' WHEN 1 THEN '-Infinity' ELSE 5 END, '2024-01-01', 'none',
    repeat('long ', 40), ARRAY[1, 2, 3], '[1]', i % 5, i % 5, 1
  FROM generate_series(1, 120) i;
INSERT INTO event SELECT i, date '2010-01-01' + 60 * i, -i FROM generate_series(1, 120) i;
INSERT INTO long_visit SELECT 100 + i % 5, 'none' FROM generate_series(1, 120) i;
