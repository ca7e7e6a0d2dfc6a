CREATE TABLE owner (id int PRIMARY KEY, born date);
CREATE TABLE item (owner int REFERENCES owner, sold timestamptz);
INSERT INTO owner SELECT i, CASE i WHEN 1 THEN 'infinity' WHEN 2 THEN '20000-01-01'
  ELSE date '2020-01-01' + i END FROM generate_series(1, 90) i;
INSERT INTO item SELECT id, born FROM owner
