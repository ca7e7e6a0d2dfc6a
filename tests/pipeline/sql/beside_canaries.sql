CREATE TABLE tally (done boolean NOT NULL);
INSERT INTO tally SELECT i % 3 = 0 FROM generate_series(1, {tally}) i;
SELECT setval('held_id_seq', 1918273645);
COMMENT ON TABLE tally IS 'Canary-Quetzal-7781';
ALTER TABLE tally ALTER done SET (n_distinct = 2);
ANALYZE;
