-- one account
\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid AND note <> '12:30' AND t > '2020-01-01'::date;
