-- Views: of joins, of views, recursive, with options, with CHECK OPTION.
-- canaries: quokkanary
CREATE TABLE staff (id integer PRIMARY KEY, boss integer REFERENCES staff, name text NOT NULL, pay integer NOT NULL);
INSERT INTO staff SELECT i, nullif(i / 5, 0), 'quokkanary ' || i, i * 10 FROM generate_series(1, 150) i;
CREATE VIEW rich AS SELECT * FROM staff WHERE pay > 500 WITH LOCAL CHECK OPTION;
CREATE VIEW richer WITH (security_barrier) AS SELECT name, pay FROM rich WHERE pay > 1000;
CREATE RECURSIVE VIEW chain (id, boss, depth) AS SELECT id, boss, 0 FROM staff WHERE boss IS NULL UNION ALL SELECT s.id, s.boss, c.depth + 1 FROM staff s JOIN chain c ON s.boss = c.id;
CREATE VIEW totals AS SELECT boss, count(*) AS n, sum(pay) FROM staff GROUP BY boss HAVING count(*) > 1;
CREATE TABLE "from" (id integer PRIMARY KEY);
CREATE VIEW depends AS SELECT f.id FROM "from" f GROUP BY f.id;
INSERT INTO "from" SELECT generate_series(1, 110);
