-- Deferrable primary, unique and foreign keys.
CREATE TABLE rank (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, place integer NOT NULL UNIQUE DEFERRABLE, title text);
INSERT INTO rank SELECT i, 151 - i, 'rank' FROM generate_series(1, 150) i;
CREATE TABLE team (id integer PRIMARY KEY, captain integer);
CREATE TABLE player (id integer PRIMARY KEY, team integer NOT NULL REFERENCES team DEFERRABLE INITIALLY IMMEDIATE);
INSERT INTO team SELECT i, NULL FROM generate_series(1, 100) i;
INSERT INTO player SELECT i, 1 + i % 100 FROM generate_series(1, 200) i;
UPDATE team SET captain = id;
ALTER TABLE team ADD FOREIGN KEY (captain) REFERENCES player DEFERRABLE INITIALLY DEFERRED;
