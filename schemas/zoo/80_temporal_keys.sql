-- Temporal keys: WITHOUT OVERLAPS and PERIOD.
-- needs: 18
-- extension: btree_gist
CREATE EXTENSION btree_gist;
CREATE TABLE employment (id integer, during daterange, PRIMARY KEY (id, during WITHOUT OVERLAPS));
INSERT INTO employment SELECT i, daterange('2020-01-01', '2024-01-01') FROM generate_series(1, 120) i;
