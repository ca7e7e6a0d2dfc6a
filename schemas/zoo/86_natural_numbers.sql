-- Natural integer keys: years, postal codes, line numbers.
CREATE TABLE season (year integer PRIMARY KEY, rounds integer NOT NULL);
INSERT INTO season SELECT y, 10 + y % 9 FROM generate_series(1901, 2024) y;
CREATE TABLE race (id serial PRIMARY KEY, year integer NOT NULL REFERENCES season, round smallint NOT NULL, UNIQUE (year, round));
INSERT INTO race (year, round) SELECT y, r FROM generate_series(1901, 2024) y, generate_series(1, 4) r;
CREATE TABLE plz (code integer PRIMARY KEY CHECK (code BETWEEN 10000 AND 99999), town text);
INSERT INTO plz SELECT 10000 + i * 37, 'town' FROM generate_series(1, 150) i;
