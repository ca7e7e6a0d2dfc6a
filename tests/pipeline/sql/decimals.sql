CREATE TABLE player (id int PRIMARY KEY, rating double precision,
  share real CHECK (share >= 0 AND share <= 1));
CREATE TABLE game (id int PRIMARY KEY, player_id int NOT NULL REFERENCES player,
  points double precision, fee numeric, speed real, weight numeric(8,2));
SELECT setseed(0.5);
INSERT INTO player SELECT i, random() / 7, round(random()) FROM generate_series(1, 600) i;
SELECT setseed(0.25);
INSERT INTO game SELECT i, 1 + i / 4 % 600,
  CASE WHEN random() < 0.1 THEN NULL WHEN random() < 0.6 THEN 0 ELSE floor(random() * 25) + 1 END,
  floor(random() * 900) / 100 + 1, floor(random() * 100) / 2, 1 + floor(random() * 50)
  FROM generate_series(0, 2399) i;
