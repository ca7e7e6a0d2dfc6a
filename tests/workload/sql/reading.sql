SELECT count(*) FROM t
WITH w AS (SELECT 1) SELECT * FROM w;
(SELECT 1) UNION ALL (SELECT 2)
VALUES (1), (2)
TABLE t
SELECT 'DELETE FROM t; set_config(1)' AS "insert"
select updated, deleted from t where note ~ 'into'
