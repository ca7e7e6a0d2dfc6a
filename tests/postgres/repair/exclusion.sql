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
-- deleted: {"public.slot": 1}
-- then:
SELECT count(*), count(slot) FROM use
--> 4, 3
SELECT bool_and(size = hi - lo), sum(size) FROM slot
--> True, 18

-- case: an expression is nested too deeply to be read
CREATE TABLE slot (id int PRIMARY KEY, n int, EXCLUDE USING btree (((- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- (- n))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))) WITH =));
-- rows: slot (id, n)
VALUES (1, 1), (2, 1), (3, 2)
-- deleted: {"public.slot": 1}
-- then:
SELECT count(*) FROM slot
--> 2

-- case: numbers, texts and shapes that exclude each other are shifted
CREATE TABLE spot (
  n smallint, code varchar(6), area circle, live boolean, EXCLUDE USING gist (area WITH &&),
  EXCLUDE USING btree (n WITH =) WHERE (live), EXCLUDE USING hash (code WITH =)
);
CREATE TABLE field (edge polygon, EXCLUDE USING gist (edge WITH &&));
-- rows: field (edge)
SELECT polygon(box(point(i / 2, 0), point(i / 2 + 0.5, 1))) FROM generate_series(0, 5) i
-- rows: spot (n, code, area, live)
SELECT i / 3, 'x' || i / 2, circle(point(i / 4, 0), 2), i % 2 = 0 FROM generate_series(0, 59) i
-- deleted: {"public.field": 3}
-- then:
SELECT count(*), count(*) FILTER (WHERE live), count(DISTINCT n) FILTER (WHERE live) FROM spot
--> 60, 30, 30
SELECT count(DISTINCT code), max(radius(area)), bool_and(n < 60 OR live) FROM spot
--> 60, 2, True

-- case: what one partition alone excludes
-- What nobody speaks of stays as it was.
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
--> 1, True
SELECT count(*), count(DISTINCT a), bool_and(b - a = 3) FROM "attic high"
--> 50, 1, True
SELECT count(*), min(b - a), max(b - a) FROM "attic low"
--> 91, 5, 5
SELECT count(*) + {deleted} FROM stay
--> 200

-- case: no key without overlaps takes an empty period
CREATE TABLE p (id int4range, at daterange, name text, PRIMARY KEY (id, at WITHOUT OVERLAPS));
-- since: 18
-- rows: p (id, at)
SELECT '[1,2)', CASE WHEN i > 3 THEN '[2020-01-01,2021-01-01)' ELSE 'empty' END
FROM generate_series(1, 23) i
-- deleted: {"public.p": 22}
-- then:
SELECT count(*), count(DISTINCT upper(at) - lower(at)) FROM p
--> 1, 1

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
