-- TPC-H: the queries that read orders or their lines, with the parameters by which the standard
-- checks them, without ORDER BY and LIMIT. Before each stands its name, and how many of its first
-- columns name a group. Keys of orders and customers name none, as a clone numbers its rows anew:
-- such a query is one group.

-- q01: 2
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1
- l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count(*) FROM lineitem WHERE
l_shipdate <= date '1998-09-02' GROUP BY 1, 2

-- q03: 0
SELECT count(DISTINCT o_orderkey), sum(l_extendedprice * (1 - l_discount)) FROM customer JOIN
orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey WHERE c_mktsegment =
'BUILDING' AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'

-- q04: 1
SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate >= date '1993-07-01' AND o_orderdate
< date '1993-10-01' AND EXISTS (SELECT FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate
< l_receiptdate) GROUP BY 1

-- q05: 1
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) FROM customer JOIN orders ON c_custkey =
o_custkey JOIN lineitem ON l_orderkey = o_orderkey JOIN supplier ON l_suppkey = s_suppkey AND
c_nationkey = s_nationkey JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey =
r_regionkey WHERE r_name = 'ASIA' AND o_orderdate >= date '1994-01-01' AND o_orderdate < date
'1995-01-01' GROUP BY 1

-- q06: 0
SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= date '1994-01-01' AND
l_shipdate < date '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24

-- q07: 3
SELECT n1.n_name, n2.n_name, extract(year FROM l_shipdate), sum(l_extendedprice * (1 - l_discount))
FROM supplier JOIN lineitem ON s_suppkey = l_suppkey JOIN orders ON o_orderkey = l_orderkey JOIN
customer ON c_custkey = o_custkey JOIN nation n1 ON s_nationkey = n1.n_nationkey JOIN nation n2 ON
c_nationkey = n2.n_nationkey WHERE l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31' AND
(n1.n_name, n2.n_name) IN (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE')) GROUP BY 1, 2, 3

-- q08: 1
SELECT extract(year FROM o_orderdate), sum(CASE WHEN n2.n_name = 'BRAZIL' THEN l_extendedprice * (1
- l_discount) ELSE 0 END), sum(l_extendedprice * (1 - l_discount)) FROM part JOIN lineitem ON
p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey JOIN orders ON l_orderkey = o_orderkey
JOIN customer ON o_custkey = c_custkey JOIN nation n1 ON c_nationkey = n1.n_nationkey JOIN region
ON n1.n_regionkey = r_regionkey JOIN nation n2 ON s_nationkey = n2.n_nationkey WHERE r_name =
'AMERICA' AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31' AND p_type = 'ECONOMY
ANODIZED STEEL' GROUP BY 1

-- q09: 2
SELECT n_name, extract(year FROM o_orderdate), sum(l_extendedprice * (1 - l_discount) -
ps_supplycost * l_quantity) FROM part JOIN lineitem ON p_partkey = l_partkey JOIN supplier ON
s_suppkey = l_suppkey JOIN partsupp ON ps_suppkey = l_suppkey AND ps_partkey = l_partkey JOIN
orders ON o_orderkey = l_orderkey JOIN nation ON s_nationkey = n_nationkey WHERE p_name LIKE
'%green%' GROUP BY 1, 2

-- q10: 1
SELECT n_name, count(DISTINCT c_custkey), sum(l_extendedprice * (1 - l_discount)) FROM customer
JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey JOIN nation ON
c_nationkey = n_nationkey WHERE o_orderdate >= date '1993-10-01' AND o_orderdate < date
'1994-01-01' AND l_returnflag = 'R' GROUP BY 1

-- q12: 1
SELECT l_shipmode, count(*) FILTER (WHERE o_orderpriority IN ('1-URGENT', '2-HIGH')), count(*)
FILTER (WHERE o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) FROM orders JOIN lineitem ON
o_orderkey = l_orderkey WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND
l_shipdate < l_commitdate AND l_receiptdate >= date '1994-01-01' AND l_receiptdate < date
'1995-01-01' GROUP BY 1

-- q13: 1
SELECT number, count(*) FROM (SELECT c_custkey, count(o_orderkey) AS number FROM customer LEFT JOIN
orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY 1) AS
customers GROUP BY 1

-- q14: 0
SELECT sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE p_type LIKE 'PROMO%'),
sum(l_extendedprice * (1 - l_discount)) FROM lineitem JOIN part ON l_partkey = p_partkey WHERE
l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-10-01'

-- q15: 0
SELECT max(total), sum(total) FROM (SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS
total FROM lineitem WHERE l_shipdate >= date '1996-01-01' AND l_shipdate < date '1996-04-01' GROUP
BY 1) AS revenue

-- q17: 0
WITH quantity AS (SELECT l_partkey AS key, avg(l_quantity) AS mean FROM lineitem GROUP BY 1) SELECT
sum(l_extendedprice) / 7.0, count(*) FROM lineitem JOIN part ON p_partkey = l_partkey JOIN quantity
ON key = l_partkey WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX' AND l_quantity < 0.2 *
mean

-- q18: 0
SELECT count(*), sum(total) FROM (SELECT sum(l_quantity) AS total FROM lineitem GROUP BY l_orderkey
HAVING sum(l_quantity) > 300) AS large

-- q19: 0
SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem JOIN part ON p_partkey = l_partkey
WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND (p_brand =
'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') AND l_quantity BETWEEN 1
AND 11 AND p_size BETWEEN 1 AND 5 OR p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX',
'MED PKG', 'MED PACK') AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10 OR p_brand =
'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') AND l_quantity BETWEEN 20
AND 30 AND p_size BETWEEN 1 AND 15)

-- q20: 0
WITH sold AS (SELECT l_partkey, l_suppkey, 0.5 * sum(l_quantity) AS half FROM lineitem WHERE
l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01' GROUP BY 1, 2) SELECT
count(DISTINCT s_suppkey) FROM supplier JOIN nation ON s_nationkey = n_nationkey JOIN partsupp ON
ps_suppkey = s_suppkey JOIN part ON p_partkey = ps_partkey JOIN sold ON l_partkey = ps_partkey AND
l_suppkey = ps_suppkey WHERE n_name = 'CANADA' AND p_name LIKE 'forest%' AND ps_availqty > half

-- q21: 0
WITH late AS (SELECT l_orderkey, count(DISTINCT l_suppkey) AS suppliers, count(DISTINCT l_suppkey)
FILTER (WHERE l_receiptdate > l_commitdate) AS late FROM lineitem GROUP BY 1) SELECT count(*),
count(DISTINCT s_suppkey) FROM lineitem JOIN late USING (l_orderkey) JOIN orders ON o_orderkey =
l_orderkey JOIN supplier ON s_suppkey = l_suppkey JOIN nation ON s_nationkey = n_nationkey WHERE
n_name = 'SAUDI ARABIA' AND o_orderstatus = 'F' AND l_receiptdate > l_commitdate AND suppliers > 1
AND late = 1

-- q22: 1
SELECT substring(c_phone FROM 1 FOR 2), count(*), sum(c_acctbal) FROM customer WHERE
substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17') AND c_acctbal >
(SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0 AND substring(c_phone FROM 1 FOR 2) IN
('13', '31', '23', '29', '30', '18', '17')) AND NOT EXISTS (SELECT FROM orders WHERE o_custkey =
c_custkey) GROUP BY 1
