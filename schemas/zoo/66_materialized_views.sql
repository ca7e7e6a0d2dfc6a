-- Materialised views with indexes, of one another, and one that is not filled.
-- canaries: quokkanary
CREATE TABLE visit (id integer PRIMARY KEY, page text NOT NULL, at date NOT NULL);
INSERT INTO visit SELECT i, 'p' || i % 5, '2024-01-01'::date + i % 20 FROM generate_series(1, 200) i;
INSERT INTO visit SELECT i, 'quokkanary ' || i, '2024-01-01' FROM generate_series(201, 220) i;
CREATE MATERIALIZED VIEW per_page AS SELECT page, count(*) AS n FROM visit GROUP BY page;
CREATE UNIQUE INDEX ON per_page (page);
CREATE VIEW between_ AS SELECT * FROM per_page WHERE n > 1;
CREATE MATERIALIZED VIEW top AS SELECT page FROM between_ ORDER BY n DESC LIMIT 3;
CREATE MATERIALIZED VIEW later AS SELECT 1 AS x FROM visit WITH NO DATA;
