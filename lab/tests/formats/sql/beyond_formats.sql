-- Queries that a format cannot hold, each under the format and why; read by test_formats.py.

--- mscn: GROUP
a GROUP BY x
--- mscn: LIMIT
a LIMIT 1
--- mscn: DISTINCT
SELECT DISTINCT COUNT(*) FROM a
--- mscn: WITH
WITH w AS (SELECT 1) SELECT COUNT(*) FROM w
--- mscn: else than COUNT
SELECT COUNT(DISTINCT x) FROM a
--- mscn: inner one
a LEFT JOIN b ON a.i = b.i
--- mscn: inner one
a JOIN b USING (i)
--- mscn: than tables
(SELECT 1) a
--- mscn: renames columns
a AS b (x)
--- mscn: than a comparison
a WHERE x = 1 OR y = 2
--- mscn: than a comparison
a WHERE x IN (1, 2)
--- mscn: than a comparison
a WHERE x IS NULL
--- mscn: than a literal
a WHERE x < y
--- mscn: columns and literals
a WHERE lower(x) = 'u'
--- mscn: comma
a WHERE x = 'u,v'
--- mscn: comma
a WHERE x = 'u#v'
--- mscn: COLLATE
a WHERE x >= 'M' COLLATE "C"
--- mscn: collation
a WHERE x >= 'M' COLLATE "de"
--- mscn: quotes
"Order Items"
--- mscn: quotes
a WHERE "X" = 1
--- mscn: no table
SELECT COUNT(*)
--- mscn: plain SELECT
DELETE FROM a
--- mscn: plain SELECT
SELECT ((((
--- sam: joins
a, b WHERE a.i = b.i
--- sam: no predicate
a
--- sam: several bounds
a WHERE x BETWEEN 1 AND 2
--- sam: several bounds
a WHERE x > 1 AND x < 5
--- sam: operator <>
a WHERE x <> 1
--- sam: collation
a WHERE x >= 'M'
--- sam: holds a dot
a WHERE "x.y" = 1
--- sam: queries fine and odd are on different tables
b WHERE x = 1
--- card-sql: query odd has several lines
SELECT
1
