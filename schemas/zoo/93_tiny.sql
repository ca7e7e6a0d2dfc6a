-- Tables of one, two and five rows, with every kind of key.
-- canaries: quokkanary
CREATE TABLE config (one boolean PRIMARY KEY DEFAULT true CHECK (one), name text NOT NULL);
INSERT INTO config VALUES (true, 'quokkanary');
CREATE TABLE pair (id smallint PRIMARY KEY, other smallint NOT NULL UNIQUE REFERENCES pair);
INSERT INTO pair VALUES (1, 2), (2, 1);
CREATE TABLE five (id integer PRIMARY KEY, pair smallint NOT NULL REFERENCES pair, label text NOT NULL UNIQUE);
INSERT INTO five SELECT i, 1 + i % 2, 'quokkanary ' || i FROM generate_series(1, 5) i;
