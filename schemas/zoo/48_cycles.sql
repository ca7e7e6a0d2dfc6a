-- Foreign keys in cycles of two and three tables, NOT NULL and nullable.
CREATE TABLE hen (id integer PRIMARY KEY, egg integer NOT NULL UNIQUE);
CREATE TABLE egg (id integer PRIMARY KEY, hen integer NOT NULL REFERENCES hen DEFERRABLE);
INSERT INTO hen SELECT i, 151 - i FROM generate_series(1, 150) i;
INSERT INTO egg SELECT i, 151 - i FROM generate_series(1, 150) i;
ALTER TABLE hen ADD FOREIGN KEY (egg) REFERENCES egg DEFERRABLE INITIALLY DEFERRED;
CREATE TABLE a (id integer PRIMARY KEY, b integer);
CREATE TABLE b (id integer PRIMARY KEY, c integer);
CREATE TABLE c (id integer PRIMARY KEY, a integer REFERENCES a ON DELETE SET NULL);
INSERT INTO a SELECT i, i FROM generate_series(1, 120) i;
INSERT INTO b SELECT i, i FROM generate_series(1, 120) i;
INSERT INTO c SELECT i, nullif(i % 9, 0) FROM generate_series(1, 120) i;
ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b;
ALTER TABLE b ADD FOREIGN KEY (c) REFERENCES c;
CREATE TABLE dept (id integer PRIMARY KEY, head integer NOT NULL);
CREATE TABLE emp (id integer PRIMARY KEY, dept integer NOT NULL REFERENCES dept);
INSERT INTO dept SELECT i, i FROM generate_series(1, 100) i;
INSERT INTO emp SELECT i, 1 + i % 100 FROM generate_series(1, 200) i;
ALTER TABLE dept ADD FOREIGN KEY (head) REFERENCES emp;
