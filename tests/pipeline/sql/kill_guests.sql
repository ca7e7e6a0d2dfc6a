-- A root table and one that it owns: many batches of questions, and little to learn.
CREATE TABLE guest (id int PRIMARY KEY, born int, tier text);
CREATE TABLE visit (id int PRIMARY KEY, guest int NOT NULL REFERENCES guest, paid int);
INSERT INTO guest SELECT i, 1950 + i, 'gold' FROM generate_series(1, 60) i;
INSERT INTO visit SELECT i, 1 + i / 2, i FROM generate_series(1, 118) i
