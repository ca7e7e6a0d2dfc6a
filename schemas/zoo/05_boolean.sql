-- Booleans, one of them a key and one almost constant.
CREATE TABLE switch (state boolean PRIMARY KEY, label text NOT NULL);
INSERT INTO switch VALUES (true, 'on'), (false, 'off');
CREATE TABLE lamp (id integer PRIMARY KEY, state boolean NOT NULL REFERENCES switch, broken boolean, rare boolean NOT NULL);
INSERT INTO lamp SELECT i, i % 3 = 0, nullif(i % 4, 0) = 1, i = 77 FROM generate_series(1, 150) i;
