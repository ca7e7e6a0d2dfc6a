CREATE TABLE owner (id int PRIMARY KEY, kind int NOT NULL CHECK (kind IN (0, 1, 2)));
CREATE TABLE item (id int PRIMARY KEY, owner int NOT NULL REFERENCES owner,
  size int NOT NULL CHECK (size BETWEEN 0 AND 20));
INSERT INTO owner SELECT i, i % 3 FROM generate_series(1, 3000) i;
INSERT INTO item SELECT i, i % 3000 + 1, 5 * ((i % 3000 + 1) % 3) + i % 4
  FROM generate_series(1, 6000) i
