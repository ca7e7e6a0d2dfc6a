-- case: unique indexes of parts and expressions
CREATE TABLE t (
  id int PRIMARY KEY, owner int NOT NULL, active boolean NOT NULL, kind text, day timestamptz,
  shout text GENERATED ALWAYS AS (upper(kind)) STORED UNIQUE
);
CREATE UNIQUE INDEX one_active ON t (owner) WHERE active;
CREATE UNIQUE INDEX folded ON t (lower(kind), owner);
CREATE UNIQUE INDEX daily ON t (owner, ((day AT TIME ZONE 'UTC')::date));
-- rows: t (id, owner, active, kind, day)
SELECT i, i % 4, i < 30, CASE WHEN i % 5 > 0 THEN 'K' || i % 7 END,
  to_char('2024-01-01'::date + i / 4, 'YYYY-MM-DD 10:00+00') FROM generate_series(0, 39) i
-- deleted: {}
-- then:
SELECT count(*), count(*) FILTER (WHERE active) FROM t
--> 40, 4

-- case: a partial index says nothing of the rows that it does not cover
CREATE TABLE t (
  id int PRIMARY KEY, slug varchar(6) NOT NULL, mail text NOT NULL, gone date, rank int NOT NULL
);
CREATE UNIQUE INDEX slug_once ON t (slug) WHERE slug <> '';
CREATE UNIQUE INDEX mail_once ON t (mail) WHERE gone IS NULL;
CREATE UNIQUE INDEX rank_once ON t (rank) WHERE rank > 0;
-- rows: t (id, slug, mail, gone, rank)
SELECT i, CASE WHEN i % 4 = 0 THEN 'slugs' ELSE '' END, 'same@x.example',
  CASE WHEN i % 2 = 0 THEN '2024-01-01' END, i % 4 FROM generate_series(0, 39) i
-- deleted: {}
-- then:
SELECT count(*), count(*) FILTER (WHERE slug = ''), count(gone),
  count(*) FILTER (WHERE mail = 'same@x.example' AND gone IS NOT NULL),
  count(*) FILTER (WHERE mail ~ '^same(-[0-9]+)?@x.example$'), count(*) FILTER (WHERE rank = 0)
FROM t
--> 40, 30, 20, 20, 40, 37

-- case: rows go where a unique index leaves no way out
CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, boss int REFERENCES t);
CREATE UNIQUE INDEX odd ON t (abs(n));
-- rows: t (id, n, boss)
VALUES (1, 5, 2), (2, -5, 1), (3, 6, 3)
-- deleted: {"public.t": 1}
-- then:
SELECT count(*), count(boss) FROM t
--> 2, 0

-- case: rows that lose their parent stay unique
CREATE TABLE node (
  id int PRIMARY KEY, parent int REFERENCES node, pos int NOT NULL,
  UNIQUE NULLS NOT DISTINCT (parent, pos), CHECK (id <> 7)
);
-- rows: node (id, parent, pos)
SELECT i, CASE WHEN i > 16 THEN 16 WHEN i > 2 THEN 7 END, CASE WHEN i > 2 THEN (i - 3) % 14
  ELSE i - 1 END FROM generate_series(1, 30) i
-- deleted: {"public.node": 3}
-- then:
SELECT count(*), count(parent) FROM node
--> 27, 14
