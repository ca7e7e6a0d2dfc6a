-- What one partition alone has: UNIQUE indexes (of columns, of an expression, at a middle level), CHECKs, foreign keys.
CREATE TABLE clubs (club integer PRIMARY KEY, name text);
CREATE TABLE matches (home boolean NOT NULL, season integer NOT NULL, club integer NOT NULL, rival integer NOT NULL, place text, goals integer) PARTITION BY LIST (home);
CREATE TABLE matches_away PARTITION OF matches FOR VALUES IN (false);
CREATE TABLE matches_home PARTITION OF matches FOR VALUES IN (true) PARTITION BY RANGE (season);
CREATE TABLE matches_home_old PARTITION OF matches_home FOR VALUES FROM (0) TO (10);
CREATE TABLE matches_home_new PARTITION OF matches_home FOR VALUES FROM (10) TO (100);
CREATE UNIQUE INDEX matches_away_rivals ON matches_away (club, rival);
CREATE UNIQUE INDEX matches_home_rivals ON matches_home (season, club, rival);
CREATE UNIQUE INDEX matches_home_new_place ON matches_home_new (lower(place));
ALTER TABLE matches_home_old ADD CHECK (goals >= 2), ADD FOREIGN KEY (club) REFERENCES clubs;
INSERT INTO clubs SELECT i, 'Club ' || i FROM generate_series(1, 40) i;
INSERT INTO matches SELECT true, 11 + i / 40, i % 40 + 1, i % 3, 'Place ' || i, i % 5 FROM generate_series(0, 399) i;
INSERT INTO matches SELECT true, i / 40, i % 40 + 1, i % 3, 'Place', 2 + i % 5 FROM generate_series(0, 199) i;
INSERT INTO matches SELECT false, 5, i % 40 + 1, i / 40, 'Place ' || i % 9, i % 5 FROM generate_series(0, 299) i;
