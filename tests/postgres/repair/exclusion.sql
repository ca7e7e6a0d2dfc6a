-- case: exclusion constraints
CREATE TABLE slot (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, lo int NOT NULL, hi int NOT NULL,
  size int GENERATED ALWAYS AS (hi - lo) STORED,
  EXCLUDE USING gist (int4range(lo, hi) WITH &&) DEFERRABLE INITIALLY DEFERRED
);
CREATE TABLE use (slot int REFERENCES slot);
-- rows: slot (id, lo, hi)
VALUES (1, 0, 6), (2, 5, 9), (3, 10, 12), (4, 20, 30)
-- rows: use (slot)
VALUES (1), (2), (3), (4)
-- deleted: {}
-- changed: {"public.slot": 1}
-- then:
SELECT count(*), count(slot) FROM use
--> 4, 4
SELECT bool_and(size = hi - lo), sum(size) FROM slot
--> True, 22

-- case: rows that cannot move are left out
CREATE TABLE slot (id int PRIMARY KEY, kind text, EXCLUDE USING btree (kind WITH =));
CREATE TABLE use (slot int REFERENCES slot);
-- rows: slot (id, kind)
VALUES (1, 'a'), (2, 'a'), (3, 'b')
-- rows: use (slot)
VALUES (1), (2), (3)
-- deleted: {"public.slot": 1}
-- then:
SELECT count(*), count(slot) FROM use
--> 3, 2

-- case: a column is moved that is named like a statement
CREATE TABLE slot (id int PRIMARY KEY, cache int, EXCLUDE USING btree (cache WITH =));
-- rows: slot (id, cache)
VALUES (1, 1), (2, 1), (3, 2)
-- deleted: {}
-- then:
SELECT count(*) FROM slot
--> 3

-- case: nothing is moved under an expression that is nested too deeply to be read
CREATE TABLE slot (id int PRIMARY KEY, n int, EXCLUDE USING btree (((- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- n))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))) WITH =));
-- rows: slot (id, n)
VALUES (1, 1), (2, 1), (3, 2)
-- deleted: {"public.slot": 1}
-- then:
SELECT count(*) FROM slot
--> 2

-- case: ranges move
CREATE TABLE t (id int PRIMARY KEY, at int4range, EXCLUDE USING gist (at WITH &&));
-- rows: t (id, at)
SELECT i, format('[%s,%s)', i % 5, i % 5 + 3) FROM generate_series(0, 59) i
-- deleted: {}
-- then:
SELECT count(*), count(DISTINCT upper(at) - lower(at)) FROM t
--> 60, 1

-- case: two ends of a span move together
CREATE TABLE t (id int PRIMARY KEY, start timestamptz NOT NULL, "b %" timestamptz,
  EXCLUDE USING gist (tstzrange(start, "b %") WITH &&), CHECK (start < "b %"));
-- rows: t (id, start, "b %")
SELECT i, '2024-01-01 00:00+00', '2024-01-01 09:00+00' FROM generate_series(0, 59) i
-- deleted: {}
-- then:
SELECT count(*), count(DISTINCT "b %" - start) FROM t
--> 60, 1

-- case: numbers move
CREATE TABLE t (id int PRIMARY KEY, n int, EXCLUDE USING btree (n WITH =));
-- rows: t (id, n)
SELECT i, i % 3 FROM generate_series(0, 59) i
-- deleted: {}
-- then:
SELECT count(*) FROM t
--> 60

-- case: days move
CREATE TABLE t (id int PRIMARY KEY, a date, b date,
  EXCLUDE USING gist (daterange(a, b) WITH &&) DEFERRABLE INITIALLY DEFERRED);
-- rows: t (id, a, b)
SELECT i, '2024-01-01', '2024-01-03' FROM generate_series(0, 59) i
-- deleted: {}
-- then:
SELECT count(*), count(DISTINCT b - a) FROM t
--> 60, 1

-- case: circles move
CREATE TABLE t (id int PRIMARY KEY, area circle, EXCLUDE USING gist (area WITH &&));
-- rows: t (id, area)
SELECT i, '<(0,0),2>' FROM generate_series(0, 59) i
-- deleted: {}
-- then:
SELECT count(*), count(DISTINCT radius(area)) FROM t
--> 60, 1

-- case: what one partition alone excludes moves within it
-- What nobody speaks of stays as it was, and what has to move stays in its partition.
CREATE TABLE stay (hall text NOT NULL, a int NOT NULL, b int NOT NULL) PARTITION BY LIST (hall);
CREATE TABLE cellar PARTITION OF stay FOR VALUES IN ('cellar');
CREATE TABLE attic PARTITION OF stay FOR VALUES IN ('attic') PARTITION BY RANGE (a);
CREATE TABLE "attic low" PARTITION OF attic FOR VALUES FROM (0) TO (1000);
CREATE TABLE "attic high" PARTITION OF attic FOR VALUES FROM (1000) TO (2000);
ALTER TABLE cellar ADD EXCLUDE USING gist (int4range(a, b) WITH &&);
ALTER TABLE "attic low" ADD EXCLUDE USING gist (int4range(a, b) WITH &&);
-- rows: stay (hall, a, b)
SELECT 'cellar', 5, 8 FROM generate_series(1, 50)
UNION ALL SELECT 'attic', i * 11, i * 11 + 5 FROM generate_series(0, 89) i
UNION ALL SELECT 'attic', 990, 995 FROM generate_series(1, 10)
UNION ALL SELECT 'attic', 1500, 1503 FROM generate_series(1, 50)
-- then:
SELECT count(*), bool_and(b - a = 3) FROM cellar
--> 50, True
SELECT count(*), count(DISTINCT a), bool_and(b - a = 3) FROM "attic high"
--> 50, 1, True
SELECT count(*) >= 95, min(b - a), max(b - a), max(a) < 1000 FROM "attic low"
--> True, 5, 5, True
SELECT count(*) + {deleted} FROM stay
--> 200

-- case: rows beyond the bounds of a partition stay out
-- Three places for four rows, since 0 to 3 holds three numbers and 50 lies elsewhere.
CREATE TABLE seat (n int NOT NULL) PARTITION BY RANGE (n);
CREATE TABLE front PARTITION OF seat FOR VALUES FROM (0) TO (3);
CREATE TABLE back PARTITION OF seat FOR VALUES FROM (3) TO (100);
ALTER TABLE front ADD EXCLUDE USING btree (n WITH =);
-- rows: seat (n)
VALUES (0), (2), (0), (2), (50)
-- deleted: {"public.seat": 1}
-- then:
SELECT array_agg(n ORDER BY n) FROM seat
--> [0, 1, 2, 50]

-- case: what hangs on a period follows when it moves
CREATE TABLE price (
  item int NOT NULL, at tstzrange NOT NULL, a timestamptz NOT NULL, b timestamptz,
  EXCLUDE USING gist (int4range(item, item, '[]') WITH =, at WITH &&),
  CHECK (lower(at) = a), CHECK (b > a)
);
-- rows: price (item, at, a, b)
SELECT i % 2, CASE WHEN i < 59 THEN '[2024-01-01 00:00+00,2024-01-03 00:00+00)'
    ELSE '[2023-12-01 00:00+00,)' END, '2024-01-01 00:00+00',
  CASE WHEN i < 40 THEN '2024-01-02 00:00+00' END FROM generate_series(0, 59) i
-- deleted: {}
-- then:
SELECT count(*), count(b), bool_and(lower(at) = a), bool_and(b > a) FROM price
--> 60, 40, True, True

-- case: a key without overlaps is kept, and no such key takes an empty period
CREATE TABLE p (id int4range, at daterange, name text, PRIMARY KEY (id, at WITHOUT OVERLAPS));
-- since: 18
-- rows: p (id, at)
SELECT '[1,2)', CASE WHEN i > 3 THEN '[2020-01-01,2021-01-01)' ELSE 'empty' END
FROM generate_series(1, 23) i
-- deleted: {}
-- then:
SELECT count(*), count(DISTINCT upper(at) - lower(at)) FROM p
--> 23, 1

-- case: rows take targets whose periods hold theirs
CREATE TABLE job (id int4range, at daterange, PRIMARY KEY (id, at WITHOUT OVERLAPS));
CREATE TABLE task (
  id int4range, job int4range, at daterange NOT NULL, PRIMARY KEY (id, at WITHOUT OVERLAPS),
  FOREIGN KEY (job, PERIOD at) REFERENCES job (id, PERIOD at)
);
CREATE TABLE step (
  job int4range, at daterange, PRIMARY KEY (job, at WITHOUT OVERLAPS),
  FOREIGN KEY (job, PERIOD at) REFERENCES job (id, PERIOD at)
);
-- since: 18
-- rows: job (id, at)
SELECT format('[%s,%s]', i / 5, i / 5), format('[20%s-01-01,20%s-01-01)', i + 10, i + 11)
FROM generate_series(0, 9) i
-- rows: task (id, job, at)
SELECT format('[%s,%s]', i, i), CASE WHEN i < 19 THEN '[0,0]' END,
  CASE i WHEN 18 THEN '[1999-01-01,1999-02-01)' WHEN 19 THEN '[2050-01-01,)'
    ELSE format('[2012-0%s-01,2012-0%s-11)', 1 + i % 9, 1 + i % 9) END
FROM generate_series(0, 19) i
-- rows: step (job, at)
SELECT '[7,7]', format('[2012-0%s-01,2012-0%s-11)', 1 + i % 9, 1 + i % 9)
FROM generate_series(0, 17) i
-- then:
SELECT count(*), count(job) FROM task
--> 20, 19
SELECT count(*) >= 18 FROM task WHERE at <@ daterange('2012-01-01', '2013-01-01')
--> True
SELECT extract(year FROM lower(at))::int FROM task WHERE job IS NULL
--> 2050
SELECT count(*) >= 14, count(*) + {deleted} FROM step
--> True, 18
