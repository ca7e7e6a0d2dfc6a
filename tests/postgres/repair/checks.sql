-- case: a check is repaired from rows that keep it
CREATE TABLE t (turn int CHECK (turn % 2 = 0), k int NOT NULL CHECK (k > turn));
-- rows: t (turn, k)
VALUES (1, 5), (2, 5), (4, 5), (3, 1)
-- deleted: {}
-- then:
SELECT count(*), count(*) FILTER (WHERE turn % 2 = 0) FROM t
--> 4, 4

-- case: a check that raises is broken, whatever stands beside it
CREATE FUNCTION positive(n int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN IF n < 1 THEN RAISE EXCEPTION 'no' USING ERRCODE = 'check_violation'; END IF;
  RETURN true; END$$;
CREATE TABLE named (found int NOT NULL CHECK (10 / found > 1), x int);
CREATE TABLE still (a int NOT NULL CHECK (10 / a > 1), x int, CHECK (now() > '2000-01-01'));
CREATE TABLE whole (a int NOT NULL CHECK (10 / a > 1), x int, CHECK (whole.* IS NOT NULL));
CREATE TABLE raised (a int NOT NULL CHECK (positive(a)), x int);
-- rows: named (found, x)
VALUES (0, 1), (1, 2), (2, 3), (3, NULL)
-- rows: still (a, x)
VALUES (0, 1), (1, 2), (2, 3), (3, NULL)
-- rows: whole (a, x)
VALUES (0, 1), (1, 2), (2, 3), (3, NULL)
-- rows: raised (a, x)
VALUES (0, 1), (1, 2), (2, 3), (3, NULL)
-- deleted: {}
-- changed: {"public.named": 1, "public.still": 1, "public.whole": 2, "public.raised": 1}
-- then:
SELECT count(*), bool_and(found > 0) FROM named
--> 4, True

-- case: a check that most rows break is kept for rows to come
CREATE TABLE t (code text NOT NULL CHECK (code ~ '^[A-Z]{3}%$'));
-- rows: t (code)
VALUES ('a'), ('b'), ('c')
-- loose: ["public.t: t_code_check"]
-- then:
SELECT count(*) FROM t
--> 3
INSERT INTO t VALUES ('d') RETURNING 1
--> !CheckViolation
INSERT INTO t VALUES ('ABC%') RETURNING 1
--> 1

-- case: a check that no row keeps is read for values
CREATE TABLE t (net int NOT NULL, tax int NOT NULL, gross int NOT NULL, list jsonb NOT NULL,
  CHECK (gross = net + tax), CHECK (jsonb_typeof(list) = 'array'));
-- rows: t (net, tax, gross, list)
SELECT i, 1, -7, '{}' FROM generate_series(0, 4) i
-- deleted: {}
-- then:
SELECT count(*), bool_and(gross = net + 1), count(DISTINCT net), max(net) FROM t
--> 5, True, 5, 4

-- case: rows on which an expression fails do not stop the load
CREATE FUNCTION small(int) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
  $$ BEGIN IF $1 > 9 THEN RAISE EXCEPTION 'too large'; END IF; RETURN true; END $$;
CREATE TABLE t (a smallint NOT NULL, b smallint NOT NULL, d text, e int CHECK (small(e)),
  area smallint GENERATED ALWAYS AS (a * b) STORED, CHECK (d::int > 0));
CREATE MATERIALIZED VIEW m AS SELECT 1 / (a - 5) AS x FROM t;
-- rows: t (a, b, d, e)
VALUES (5, 1, '1', 1), (30000, 30000, '2', 2), (7, 1, 'word', 3), (8, 1, '3', 10)
-- then:
SELECT a, area FROM t ORDER BY a
--> 5, 5 | 7, 7 | 8, 8
SELECT count(*) FROM t WHERE d !~ '^[0-9]+$' OR e > 9
--> 0
SELECT relispopulated FROM pg_class WHERE relname = 'm'
--> False

-- case: a key column is brought to what its check says of it
CREATE TABLE hourly (
  device int, hour timestamptz CHECK (hour = date_trunc('hour', hour, 'UTC')),
  PRIMARY KEY (device, hour)
);
-- rows: hourly (device, hour)
SELECT i, '2024-01-01 0' || i || ':07:00+00' FROM generate_series(0, 8) i
-- deleted: {}
-- then:
SELECT count(DISTINCT hour), max(hour)::text FROM hourly
--> 9, '2024-01-01 08:00:00+00'

-- case: rows keep their kind while what depends on it is repaired
CREATE TABLE bill (
  state text NOT NULL, paid date, CHECK ((state = 'paid') = (paid IS NOT NULL))
);
-- rows: bill (state, paid)
SELECT CASE WHEN i < 40 THEN 'paid' ELSE 'open' END,
  CASE WHEN i < 1 OR i BETWEEN 40 AND 44 THEN '2024-01-0' || 1 + sign(i)::int END
FROM generate_series(0, 79) i
-- changed: {"public.bill": 44}
-- then:
SELECT state, count(*), count(paid) FROM bill GROUP BY 1 ORDER BY 1
--> 'open', 40, 0 | 'paid', 40, 40

-- case: a list that a check names is taken where no row keeps it
CREATE TABLE t (days int[] NOT NULL CHECK (days <@ ARRAY[1, 2, 3] AND cardinality(days) > 0));
-- rows: t (days)
VALUES ('{9}'), ('{9}'), ('{9}')
-- deleted: {}
-- then:
SELECT DISTINCT days FROM t
--> [1, 2, 3]

-- case: a default is tried where no row keeps a check
CREATE TYPE scope AS ENUM ('read', 'write');
CREATE TABLE t (id int PRIMARY KEY, scopes scope[] NOT NULL DEFAULT '{read}'
  CHECK (cardinality(scopes) > 0 AND array_position(scopes, NULL) IS NULL));
-- rows: t (id, scopes)
VALUES (1, '{}'), (2, '{}')
-- then:
SELECT DISTINCT scopes::text FROM t
--> '{read}'

-- case: rows take a disjunct of a check; kinds stay, what is missing is drawn
CREATE TABLE product (id int PRIMARY KEY);
CREATE TABLE line (
  id int PRIMARY KEY, product int REFERENCES product, price numeric NOT NULL, qty int NOT NULL,
  kind text,
  CHECK (kind IS NOT NULL OR (product IS NOT NULL AND price IS NOT NULL)),
  CHECK (kind IS NULL OR (product IS NULL AND price = 0 AND qty = 0))
);
-- rows: product (id)
VALUES (1), (2), (3)
-- rows: line (id, product, price, qty, kind)
SELECT i, CASE WHEN i < 200 AND i % 10 <> 1 THEN i % 3 + 1 END, CASE WHEN i % 10 <> 1 THEN 7 ELSE 0 END,
  CASE WHEN i % 10 <> 1 THEN i % 4 ELSE 0 END, CASE i % 2 WHEN 1 THEN 'section' END
FROM generate_series(0, 299) i
-- deleted: {}
-- then:
SELECT count(*), lines + sections = count(*), least(lines, sections) > 40
FROM line, (SELECT count(*) FILTER (WHERE kind IS NULL AND product > 0 AND price = 7) AS lines,
  count(*) FILTER (WHERE kind = 'section' AND price = 0) AS sections FROM line) found
GROUP BY lines, sections
--> 300, True, True

-- case: sums are computed even where a few rows are right by chance; one or two may borrow first
CREATE TABLE bill (
  id int PRIMARY KEY, kind text NOT NULL, net numeric NOT NULL, tax numeric NOT NULL,
  gross numeric NOT NULL, qty int, price numeric, amount numeric,
  CHECK (gross = net + tax), CHECK (kind <> 'item' OR amount = round(qty * price, 2))
);
-- rows: bill (id, kind, net, tax, gross, qty, price, amount)
SELECT i, CASE WHEN i % 3 > 0 THEN 'item' ELSE 'text' END, i, i / 5, 0, 1 + i % 4, 2 + i,
  CASE WHEN i % 10 > 0 THEN 5 + i END FROM generate_series(0, 299) i
-- deleted: {}
-- then:
SELECT least(count(DISTINCT net), count(DISTINCT price),
    count(*) FILTER (WHERE net = id AND tax = id / 5)) >= 295,
  count(*) FILTER (WHERE kind = 'item') > 180, count(amount) > 220 FROM bill
--> True, True, True

-- case: implications of every form are kept by changing no more than needed
CREATE TYPE mood AS ENUM ('cold', 'hot');
CREATE TABLE o (id int PRIMARY KEY);
DO $$
DECLARE
  rule text;
  number int := 0;
BEGIN
  FOREACH rule IN ARRAY ARRAY[
    'x <> ''a'' OR y IS NULL',
    '(y IS NULL) = (z IS NULL)',
    'CASE x WHEN ''a'' THEN y IS NOT NULL AND z IS NULL ELSE z = y + 1 END',
    'CASE WHEN x = ''a'' THEN y > 900 ELSE z IS NULL END',
    'num_nonnulls(p, q, r) = 1',
    '((p IS NOT NULL)::int + (q IS NOT NULL)::int + (r IS NOT NULL)::int) = 2',
    'f = (y IS NOT NULL AND x = ''a'')',
    'NOT (f AND (y IS NULL OR z IS NULL))',
    'x IS DISTINCT FROM ''a'' OR y BETWEEN 950 AND 960 OR m IN (''hot'')',
    '(x = ''a'' AND p IS NOT NULL AND q IS NULL) OR (x = ''b'' AND q IS NOT NULL AND p IS NULL)',
    'g IS NULL OR z IS NULL'
  ] LOOP
    EXECUTE format('CREATE TABLE t%s (
      id int PRIMARY KEY, x text NOT NULL, y int, z int, f boolean NOT NULL, m mood,
      p int REFERENCES o, q int REFERENCES o, r int REFERENCES o,
      g int GENERATED ALWAYS AS (y + 1) STORED, CHECK (%s))', number, rule);
    number := number + 1;
  END LOOP;
END $$;
-- rows: o (id)
VALUES (1), (2)
-- rows: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10 (id, x, y, z, f, m, p, q, r)
SELECT i, CASE WHEN i % 2 = 1 THEN 'a' ELSE 'b' END, CASE WHEN i % 3 > 0 THEN i % 50 + 1 END,
  CASE WHEN i % 3 <> 1 THEN 100 + i END, i % 2 = 0, 'cold',
  CASE WHEN i % 12 IN (0, 3, 5) THEN 1 END, CASE WHEN i % 12 IN (1, 3, 4) THEN 1 END,
  CASE WHEN i % 12 IN (2, 4, 5) THEN 1 END
FROM generate_series(0, 119) i
-- deleted: {}
-- then:
SELECT count(*), count(*) FILTER (WHERE x = 'a') >= 40 FROM t0
--> 120, True
SELECT count(*), count(*) FILTER (WHERE x = 'a') >= 40 FROM t1
--> 120, True
SELECT count(*), count(*) FILTER (WHERE x = 'a' AND y > 0) >= 40 FROM t2
--> 120, True
SELECT count(*), count(*) FILTER (WHERE x = 'a') >= 40 FROM t3
--> 120, True
SELECT count(*), least(count(p), count(q), count(r)) >= 5 FROM t4
--> 120, True
SELECT count(*), least(count(p), count(q), count(r)) >= 10 FROM t5
--> 120, True
SELECT count(*), count(*) FILTER (WHERE f) >= 1 FROM t6
--> 120, True
SELECT count(*), count(*) FILTER (WHERE f) >= 40 FROM t7
--> 120, True
SELECT count(*), count(*) FILTER (WHERE x = 'a') >= 40 FROM t8
--> 120, True
SELECT count(*), count(*) FILTER (WHERE x = 'a') >= 40 FROM t9
--> 120, True
SELECT count(*), count(z) >= 10 FROM t10
--> 120, True
