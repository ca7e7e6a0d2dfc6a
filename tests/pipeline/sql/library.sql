CREATE TABLE reader (id int PRIMARY KEY, age int NOT NULL CHECK (age BETWEEN 0 AND 99),
  branch text NOT NULL CHECK (branch IN ('north', 'south', 'east', 'west')), active bool NOT NULL);
CREATE TABLE loan (id int PRIMARY KEY, reader_id int NOT NULL REFERENCES reader,
  kind text NOT NULL CHECK (kind IN ('book', 'map', 'film', 'disc')),
  days int NOT NULL CHECK (days BETWEEN 0 AND 59));
INSERT INTO reader SELECT i, (i * 37) % 90, (ARRAY['north', 'north', 'south', 'east'])[1 + i % 4],
  i % 3 > 0 FROM generate_series(1, 4000) i;
INSERT INTO loan SELECT i, 1 + (i * 7) % 4000,
  (ARRAY['book', 'book', 'film', 'disc'])[1 + i / 4000], (i * 11) % 60
  FROM generate_series(1, 12000) i;
