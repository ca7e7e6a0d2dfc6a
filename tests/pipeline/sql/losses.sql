CREATE TABLE country (code text PRIMARY KEY, title text NOT NULL);
INSERT INTO country VALUES ('x', 'Xanadu'), ('y', 'Yonder');
CREATE TABLE person (id int PRIMARY KEY, code text NOT NULL REFERENCES country, age int NOT NULL,
  mood text NOT NULL);
INSERT INTO person SELECT i, 'x', 20 + i * 7 % 60, md5(i::text) FROM generate_series(1, {units}) i;
CREATE TABLE visit (id int PRIMARY KEY, person_id int NOT NULL REFERENCES person ON DELETE CASCADE,
  score int NOT NULL);
INSERT INTO visit SELECT i, 1 + i % 300, i % 50 FROM generate_series(1, 900) i;
CREATE TABLE fine (id int PRIMARY KEY, person_id int NOT NULL REFERENCES person ON DELETE CASCADE,
  price numeric(8, 2));
CREATE TABLE appeal (id int PRIMARY KEY, fine_id int NOT NULL REFERENCES fine ON DELETE CASCADE);
CREATE TABLE tip (id int PRIMARY KEY, person_id int REFERENCES person ON DELETE CASCADE, sum int);
CREATE TABLE notice (id int PRIMARY KEY, at date, level int);
