-- Queries of a workload, each with Jane in a place that a query may name as it likes; read by
-- test_rebind_names.py.

--- column
SELECT total AS jane_doe FROM sale ORDER BY Jane_Doe
--- quoted column
SELECT total AS "Jane" FROM sale ORDER BY "Jane"
--- bare column
SELECT total jane FROM sale
--- table
SELECT jane.total FROM sale AS jane WHERE JANE.id > 3
--- bare table
SELECT jane.total FROM sale jane JOIN buyer jane_too ON jane_too.id = buyer_id
--- columns of a table
SELECT jane_one FROM sale AS s (jane_one, jane_two)
--- sub-query
SELECT total FROM (SELECT total FROM sale) jane
--- WITH
WITH of_jane AS (SELECT total FROM sale) SELECT of_jane.total FROM of_jane
--- WITH and columns
WITH jane (jane_total) AS (SELECT total FROM sale) SELECT jane_total FROM jane
--- recursive WITH
WITH RECURSIVE jane (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM jane WHERE n < 3) SELECT n FROM jane
--- WITH as of a function
WITH count_jane AS MATERIALIZED (SELECT count(*) AS count FROM sale) SELECT count FROM count_jane
--- window
SELECT rank() OVER jane FROM sale WINDOW jane AS (ORDER BY total)
--- function
SELECT jane FROM generate_series(1, 3) AS jane
--- function's columns
SELECT jane_one FROM generate_series(1, 3) AS g (jane_one)
--- join
SELECT 1 FROM (sale JOIN buyer ON buyer.id = buyer_id) AS jane (a, b, c, d, e)
--- lateral
SELECT jane.t FROM buyer b, LATERAL (SELECT s.total AS t FROM sale s) AS jane
--- ordinality
SELECT jane_two FROM unnest(ARRAY[1]) WITH ORDINALITY AS u (a, jane_two)
--- record
SELECT r.jane_a FROM json_to_recordset('[]') AS r (jane_a int, jane_b text)
--- search
WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SEARCH DEPTH FIRST BY n SET jane SELECT n FROM r
--- xml
SELECT xmlelement(name jane, city) FROM buyer
--- unicode
SELECT total AS U&"\006aane" FROM sale
--- comment
SELECT total /* jane */ FROM sale -- jane
--- hint
/*+ SeqScan(jane) */ SELECT total FROM sale
--- first comment
-- jane
SELECT total FROM sale
--- whole row
SELECT jane FROM sale jane
