-- Queries, and how each is asked where the clone lacks their texts (no second line: as it is); read by test_rebind.py.

--- 1
SELECT count(*) FROM towns WHERE name = 'Oslo'
=> SELECT count(*) FROM towns WHERE name = 'x'
--- 2
SELECT count(*) FROM towns t WHERE t.name IN ('Oslo', 'Rome', 'Bern') AND id > -3 LIMIT 77
=> SELECT count(*) FROM towns t WHERE t.name IN ('x', 'z', 'Bern') AND id > -3 LIMIT 77
--- 3
SELECT count(*) FROM towns WHERE "Odd Name" = 'it''s' AND id <> 17 AND name<>'a''\b'
=> SELECT count(*) FROM towns WHERE "Odd Name" = 'o''no' AND id <> 17 AND name<>E'a''\\b'
--- 4
SELECT count(*) FROM towns WHERE kind = 'gone' -- 5
=> SELECT count(*) FROM towns WHERE kind = 'new'
--- 5
SELECT count(*) FROM towns WHERE name = 'Kyiv' AND id < 99
--- 6
SELECT count(*) FROM towns WHERE name = 'Nowhere'
--- 7
SELECT count(*) FROM towns WHERE name LIKE 'Oslo' AND lower(name) = 'Oslo'
--- 8
SELECT 'Oslo', id FROM towns WHERE name > 'Oslo'
--- 9
SELECT this is no query
