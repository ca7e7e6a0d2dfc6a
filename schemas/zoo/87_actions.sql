-- Every ON DELETE and ON UPDATE action; two keys to one parent.
CREATE TABLE person (id integer PRIMARY KEY, sex char(1) CHECK (sex IN ('f', 'm', 'x')));
INSERT INTO person SELECT i, (ARRAY['f', 'm', 'x'])[1 + i % 3] FROM generate_series(0, 150) i;
CREATE TABLE letter (id integer PRIMARY KEY, sender integer REFERENCES person ON DELETE SET NULL, receiver integer NOT NULL REFERENCES person ON DELETE CASCADE ON UPDATE CASCADE, clerk integer DEFAULT 0 REFERENCES person ON DELETE SET DEFAULT, boss integer REFERENCES person ON DELETE RESTRICT, CHECK (sender <> receiver));
INSERT INTO letter SELECT i, i % 150, (i + 7) % 150, 0, nullif(i % 3, 0) FROM generate_series(2, 200) i;
