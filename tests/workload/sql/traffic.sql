SELECT b.bid, count(*), sum(a.abalance) FROM pgbench_accounts a
JOIN pgbench_branches b ON b.bid = a.bid
WHERE a.aid BETWEEN 40001 AND {number} AND a.filler <> '{text}'
GROUP BY b.bid ORDER BY 2 DESC LIMIT 5;
SELECT tid FROM pgbench_tellers WHERE tid IN (3, 5, 8) AND tbalance > -{number};
WITH rich AS (SELECT aid AS who, abalance FROM pgbench_accounts WHERE abalance >= 0)
SELECT count(*) FROM rich WHERE who < {number} AND rich.abalance = 0; /* {text} */
SELECT count(*) FROM pg_class;
SELECT '{text}';
