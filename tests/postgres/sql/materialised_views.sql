CREATE TABLE t (id int PRIMARY KEY, kind text, n int);
CREATE MATERIALIZED VIEW kinds AS SELECT kind, n FROM t;
CREATE UNIQUE INDEX kinds_kind ON kinds (kind);
CREATE INDEX kinds_n ON kinds (n);
CREATE VIEW upper_kinds AS SELECT upper(kind) AS kind FROM kinds;
CREATE MATERIALIZED VIEW of_kinds AS SELECT count(*) AS c FROM upper_kinds;
CREATE MATERIALIZED VIEW one AS SELECT (SELECT n FROM t WHERE n = 5) AS n;
CREATE MATERIALIZED VIEW shares AS SELECT 100 / n AS share FROM t;
CREATE MATERIALIZED VIEW whole AS SELECT count(*) AS c FROM t;
