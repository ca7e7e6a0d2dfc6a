CREATE TABLE person (id integer PRIMARY KEY, age integer NOT NULL CHECK (age BETWEEN 0 AND 99));
CREATE TABLE visit (id integer PRIMARY KEY, person_id integer NOT NULL REFERENCES person);
INSERT INTO person SELECT i, i % 80 FROM generate_series(1, 400) i;
INSERT INTO visit SELECT i, 1 + i % 400 FROM generate_series(1, 900) i;
