-- Foreign keys to UNIQUE columns, of other types than their target's.
-- canaries: quokkanary
CREATE TABLE airport (id serial PRIMARY KEY, code varchar(4) NOT NULL UNIQUE, no bigint UNIQUE, city text, gate integer, UNIQUE (city, gate));
INSERT INTO airport (code, no, city, gate) SELECT 'A' || i, i * 10, 'quokkanary ' || i % 10, i FROM generate_series(1, 120) i;
CREATE TABLE flight (id integer PRIMARY KEY, origin text NOT NULL REFERENCES airport (code), via integer REFERENCES airport (no), city text, gate bigint, FOREIGN KEY (gate, city) REFERENCES airport (gate, city));
INSERT INTO flight SELECT i, 'A' || 1 + i % 120, (1 + i % 120) * 10, 'quokkanary ' || (1 + i % 120) % 10, 1 + i % 120 FROM generate_series(1, 220) i;
