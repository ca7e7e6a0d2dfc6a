-- Comments on everything: they stay behind.
-- canaries: quokkanary
CREATE TABLE noted (id integer PRIMARY KEY, n integer CHECK (n > 0));
CREATE INDEX noted_n ON noted (n);
CREATE VIEW seen AS SELECT * FROM noted;
COMMENT ON TABLE noted IS 'quokkanary table'; COMMENT ON COLUMN noted.n IS 'quokkanary column'; COMMENT ON CONSTRAINT noted_n_check ON noted IS 'quokkanary check';
COMMENT ON INDEX noted_n IS 'quokkanary index'; COMMENT ON VIEW seen IS 'quokkanary view'; COMMENT ON SCHEMA public IS 'quokkanary schema';
INSERT INTO noted SELECT i, 1 + i % 9 FROM generate_series(1, 150) i;
