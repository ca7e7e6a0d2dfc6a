-- MATCH FULL, all columns or none.
CREATE TABLE shelf (hall integer, no integer, PRIMARY KEY (hall, no));
INSERT INTO shelf SELECT i / 10, i % 10 FROM generate_series(0, 149) i;
CREATE TABLE book (id integer PRIMARY KEY, hall integer, no integer, FOREIGN KEY (hall, no) REFERENCES shelf MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL);
INSERT INTO book SELECT i, CASE WHEN i % 3 > 0 THEN i % 150 / 10 END, CASE WHEN i % 3 > 0 THEN i % 10 END FROM generate_series(1, 220) i;
