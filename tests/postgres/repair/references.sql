-- case: rows go where a check on keys cannot be repaired
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE pair (a int REFERENCES p, b int REFERENCES p, PRIMARY KEY (a, b), CHECK (a <> b));
CREATE TABLE note (a int NOT NULL, b int NOT NULL, FOREIGN KEY (a, b) REFERENCES pair);
CREATE TABLE mark (x int, a int, b int, FOREIGN KEY (a, b) REFERENCES pair);
-- rows: p (id)
VALUES (1), (2), (3)
-- rows: pair (a, b)
VALUES (1, 2), (2, 2), (3, 1)
-- rows: note (a, b)
VALUES (1, 2), (2, 2), (3, 1)
-- rows: mark (x, a, b)
VALUES (1, 1, 2), (2, 2, 2), (3, 3, 1)
-- deleted: {"public.pair": 1}
-- then:
SELECT count(*), count(DISTINCT (a, b)) FROM note WHERE (a, b) IN ((1, 2), (3, 1))
--> 3, 2
SELECT a, b FROM mark WHERE x = 2
--> None, None

-- case: rows of tables that inherit are judged by their own keys
-- Keys, references and CHECKs with NO INHERIT speak of the parent's own rows alone.
CREATE TABLE k (id int PRIMARY KEY);
CREATE TABLE p (
  id int PRIMARY KEY CHECK (id < 100) NO INHERIT, k int NOT NULL REFERENCES k,
  at int NOT NULL, EXCLUDE USING btree (at WITH =), CHECK (at >= 0)
);
CREATE UNIQUE INDEX folded ON p (abs(id));
CREATE TABLE c () INHERITS (p);
-- rows: k (id)
VALUES (1)
-- rows: p (id, k, at)
VALUES (1, 1, 3), (2, 7, 4), (300, 1, -1)
-- rows: c (id, k, at)
VALUES (1, 8, 3), (300, 9, -1)
-- suspects: ["public.k"]
-- deleted: {"public.p": 1}
-- then:
SELECT id, k FROM ONLY p ORDER BY 1
--> 1, 1 | 2, 1
SELECT count(DISTINCT at), min(at) >= 0 FROM ONLY p
--> 2, True
SELECT id, k, at >= 0 FROM c ORDER BY 1
--> 1, 8, True | 300, 9, True

-- case: suspects lose their dangling references
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (p int NOT NULL UNIQUE REFERENCES p);
-- rows: p (id)
VALUES (1)
-- rows: c (p)
VALUES (1), (2)
-- suspects: ["public.p"]
-- deleted: {"public.c": 1}
-- then:
SELECT p FROM c
--> 1

-- case: rows that must refer move to another parent
CREATE TABLE p (id int PRIMARY KEY CHECK (id < 10));
CREATE TABLE c (k int PRIMARY KEY, p int NOT NULL REFERENCES p);
-- rows: p (id)
VALUES (1), (2), (11)
-- rows: c (k, p)
VALUES (1, 11), (2, 11), (3, 2)
-- changed: {"public.c": 2}
-- then:
SELECT count(*), bool_and(p < 10) FROM c
--> 3, True

-- case: rows that move to another parent go where there is no room
CREATE TABLE p (id int PRIMARY KEY CHECK (id < 10));
CREATE TABLE c (
  p int NOT NULL REFERENCES p, at int4range NOT NULL,
  EXCLUDE USING gist (int4range(p, p, '[]') WITH =, at WITH &&)
);
-- rows: p (id)
VALUES (1), (11)
-- rows: c (p, at)
SELECT 1 + i / 9 * 10, format('[%s,%s)', i % 9, i % 9 + 1) FROM generate_series(0, 17) i
-- deleted: {"public.p": 1, "public.c": 9}
-- then:
SELECT count(DISTINCT at), max(p) FROM c
--> 9, 1

-- case: one of several references is kept, where rows have none or both
CREATE TABLE project (id int PRIMARY KEY);
CREATE TABLE team (id int PRIMARY KEY);
CREATE TABLE label (
  id int PRIMARY KEY, project int REFERENCES project, team int REFERENCES team,
  CHECK (num_nonnulls(project, team) = 1)
);
-- rows: project (id)
VALUES (1), (2)
-- rows: team (id)
VALUES (1), (2)
-- rows: label (id, project, team)
VALUES (0, 1, NULL), (1, NULL, 1), (2, 2, NULL), (3, NULL, NULL), (4, 1, 2), (5, 2, 1)
-- deleted: {}
-- then:
SELECT count(*) FROM label
--> 6

-- case: one of several references is kept, where every row has both
CREATE TABLE project (id int PRIMARY KEY);
CREATE TABLE team (id int PRIMARY KEY);
CREATE TABLE label (
  id int PRIMARY KEY, project int REFERENCES project, team int REFERENCES team,
  CHECK (num_nonnulls(project, team) = 1)
);
-- rows: project (id)
VALUES (1), (2)
-- rows: team (id)
VALUES (1), (2)
-- rows: label (id, project, team)
VALUES (0, 1, 2), (1, 2, 1), (2, 1, 2), (3, 2, 1), (4, 1, 2), (5, 2, 1)
-- deleted: {}
-- then:
SELECT count(*) FROM label
--> 6

-- case: references of several columns end as a whole
CREATE TABLE a (id int PRIMARY KEY);
CREATE TABLE b (x int, y int, PRIMARY KEY (x, y));
CREATE TABLE f (
  id int PRIMARY KEY, a int REFERENCES a, x int, y int, z int,
  FOREIGN KEY (x, y) REFERENCES b MATCH FULL, CHECK (num_nonnulls(a, y, z) = 1)
);
-- rows: a (id)
VALUES (1)
-- rows: b (x, y)
VALUES (1, 2)
-- rows: f (id, a, x, y)
SELECT i, 1, 1, 2 FROM generate_series(0, 199) i
-- then:
SELECT count(*), count(a) > 20, count(y) > 20, count(x) = count(y) FROM f
--> 200, True, True, True

-- case: repairs lead no reference of a table to itself in a circle
-- A row goes that all others are below of (-2 and 2 are one): they take another one of their tenant.
CREATE TABLE may (
  tenant int, id int, top boolean NOT NULL, up int, v int NOT NULL,
  PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, up) REFERENCES may (tenant, id)
);
CREATE TABLE must (
  tenant int, id int, top boolean NOT NULL, up int NOT NULL, v int NOT NULL,
  PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, up) REFERENCES must (tenant, id)
);
CREATE UNIQUE INDEX ON may (abs(v));
CREATE UNIQUE INDEX ON must (abs(v));
-- rows: may, must (tenant, id, top, up, v)
SELECT 1, i, true, CASE i WHEN 1 THEN 59 ELSE greatest(i - 1, 0) END,
  CASE i WHEN 1 THEN -2 ELSE i END FROM generate_series(0, 59) i
-- then:
WITH RECURSIVE up AS (SELECT id AS start, up FROM may WHERE up <> id UNION
  SELECT up.start, t.up FROM up JOIN may t ON t.id = up.up WHERE t.up <> t.id)
SELECT count(*) FROM up WHERE start = up
--> 0
SELECT count(*), count(*) FILTER (WHERE up IS NULL OR up = id) BETWEEN 1 AND 3 FROM may
--> 59, True
WITH RECURSIVE up AS (SELECT id AS start, up FROM must WHERE up <> id UNION
  SELECT up.start, t.up FROM up JOIN must t ON t.id = up.up WHERE t.up <> t.id)
SELECT count(*) FROM up WHERE start = up
--> 0
SELECT count(*), count(*) FILTER (WHERE up IS NULL OR up = id) BETWEEN 1 AND 3 FROM must
--> 59, True
