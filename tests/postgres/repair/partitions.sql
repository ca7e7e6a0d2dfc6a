-- case: rows that no partition takes
CREATE TABLE ev (id int, kind text, at date, v int) PARTITION BY LIST (kind);
CREATE TABLE ev_a PARTITION OF ev FOR VALUES IN ('a') PARTITION BY RANGE (at);
CREATE TABLE ev_a1 PARTITION OF ev_a FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE ev_b PARTITION OF ev FOR VALUES IN ('b');
CREATE TABLE ho (id int PRIMARY KEY) PARTITION BY HASH (id);
CREATE TABLE ho_1 PARTITION OF ho FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE far (d date PRIMARY KEY) PARTITION BY RANGE (d);
CREATE TABLE far_1 PARTITION OF far FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE uses (d date NOT NULL REFERENCES far);
CREATE TABLE odd (n int, m int) PARTITION BY RANGE (m, (n / 10));
CREATE TABLE odd_1 PARTITION OF odd FOR VALUES FROM (0, 5) TO (0, 7);
-- rows: ev (id, kind, at, v)
VALUES (1, 'a', '2024-05-05', 1), (2, 'a', '1999-01-01', 2), (3, 'c', '2024-01-01', 3),
  (4, 'b', '1970-01-01', 4)
-- rows: ho (id)
VALUES (1), (2)
-- rows: far (d)
VALUES ('1900-01-01'), ('1900-01-02')
-- rows: uses (d)
VALUES ('1900-01-01'), ('1900-01-02')
-- rows: odd (n, m)
VALUES (55, 0), (1, 0), (99, 7)
-- deleted: {"public.far": 2, "public.uses": 2}
-- then:
SELECT array_agg(id ORDER BY id), count(DISTINCT v) FROM ev
--> [1, 2, 3, 4], 4
SELECT n, m FROM odd
--> 55, 0 | 55, 0 | 55, 0

-- case: rows of hash partitions that are missing are moved
CREATE TABLE t (k int NOT NULL) PARTITION BY HASH (k);
CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
-- rows: t (k)
SELECT i FROM generate_series(0, 99) i
-- deleted: {}
-- then:
SELECT count(*), count(DISTINCT k) < 100 FROM t
--> 100, True

-- case: rows of a partition borrow within it
-- All of them take a good row's value, none the bound that the CHECK speaks of.
CREATE TABLE m (k text NOT NULL, v int NOT NULL) PARTITION BY LIST (k);
CREATE TABLE a PARTITION OF m FOR VALUES IN ('a');
CREATE TABLE b PARTITION OF m FOR VALUES IN ('b');
ALTER TABLE a ADD CONSTRAINT big CHECK (v >= 100);
-- rows: m (k, v)
SELECT CASE WHEN i < 400 THEN 'a' ELSE 'b' END,
  CASE WHEN i < 400 AND i % 2 = 1 THEN 100 + i ELSE i % 50 END FROM generate_series(0, 4399) i
-- deleted: {}
-- then:
SELECT count(*), min(v) FROM a
--> 400, 101
SELECT count(*), max(v) FROM b
--> 4000, 49

-- case: a row leaves the index of its partition by a value of that partition
CREATE TABLE m (k text NOT NULL, v int NOT NULL, kind text NOT NULL) PARTITION BY LIST (k);
CREATE TABLE a PARTITION OF m FOR VALUES IN ('a');
CREATE TABLE b PARTITION OF m FOR VALUES IN ('b');
CREATE UNIQUE INDEX one ON a (v) WHERE kind = 'main';
-- rows: m (k, v, kind)
SELECT CASE WHEN i < 20 THEN 'a' ELSE 'b' END, 1,
  CASE WHEN i < 18 THEN 'main' WHEN i < 20 THEN 'side' ELSE 'theirs' END
FROM generate_series(0, 219) i
-- deleted: {}
-- then:
SELECT kind, count(*) FROM a GROUP BY 1 ORDER BY 1
--> 'main', 1 | 'side', 19
