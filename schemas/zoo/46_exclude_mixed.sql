-- EXCLUDE over a key and a range, the classic booking.
-- extension: btree_gist
CREATE EXTENSION btree_gist;
CREATE TABLE room (id integer PRIMARY KEY, name text);
INSERT INTO room SELECT i, 'room ' || i FROM generate_series(1, 100) i;
CREATE TABLE booking (id integer PRIMARY KEY, room integer NOT NULL REFERENCES room, during daterange NOT NULL, EXCLUDE USING gist (room WITH =, during WITH &&));
INSERT INTO booking SELECT i, 1 + i % 100, daterange('2024-01-01'::date + i, '2024-01-04'::date + i) FROM generate_series(1, 200) i;
