-- Keys and CHECKs that were added NOT VALID, with rows that break them.
CREATE TABLE parent (id integer PRIMARY KEY);
INSERT INTO parent SELECT generate_series(1, 120);
CREATE TABLE child (id integer PRIMARY KEY, parent integer, n integer NOT NULL);
INSERT INTO child SELECT i, i, i - 20 FROM generate_series(1, 160) i;
ALTER TABLE child ADD FOREIGN KEY (parent) REFERENCES parent NOT VALID;
ALTER TABLE child ADD CHECK (n > 0) NOT VALID;
