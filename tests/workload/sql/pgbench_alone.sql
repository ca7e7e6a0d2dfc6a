-- Scripts that only pgbench can run, each under what is said of it; read by test_workload_format_pgbench.py.

--- has \\sleep, which only pgbench
\sleep 1 ms
SELECT 1;
--- has \\if
\if true
SELECT 1;
\endif
--- sets a twice
\set a 1
\set a 2
SELECT :a;
--- without a variable and its value
SELECT 1;
\set a \
--- without a variable and its value
SELECT 1;
\set a 1 \
--- without a variable and its value
\set a
SELECT :a;
--- cannot be drawn here
\set a hash(1)
SELECT :a;
--- cannot be drawn here
\set a :b
SELECT :a;
--- cannot be drawn here
\set a 1 / 0
SELECT :a;
--- cannot be drawn here
\set a (
SELECT :a;
--- no query
\set a 1
-- nothing
