\set low random(1, 5)
\set high :low + \
   10 * 2
\set unused 7
SELECT count(*) FROM pgbench_tellers WHERE tid BETWEEN :low AND :high;
SELECT count(*) FROM pgbench_branches;
