-- Extended statistics, targets of statistics, and n_distinct, which is data and stays behind.
CREATE TABLE stat (id integer PRIMARY KEY, a integer NOT NULL, b integer NOT NULL, c text);
INSERT INTO stat SELECT i, i % 10, i % 10, 'x' FROM generate_series(1, 200) i;
CREATE STATISTICS ab (ndistinct, dependencies, mcv) ON a, b FROM stat;
CREATE STATISTICS expr ON (a + b), lower(c) FROM stat;
ALTER TABLE stat ALTER a SET STATISTICS 500;
ALTER STATISTICS ab SET STATISTICS 50;
ALTER TABLE stat ALTER b SET (n_distinct = 10);
ANALYZE stat;
