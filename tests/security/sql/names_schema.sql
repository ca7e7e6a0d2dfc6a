CREATE TABLE buyer (id integer PRIMARY KEY, city text);
CREATE TABLE sale (id integer PRIMARY KEY, buyer_id integer REFERENCES buyer, total numeric);
INSERT INTO buyer SELECT i, 'c' || i % 3 FROM generate_series(1, 20) i;
INSERT INTO sale SELECT i, 1 + i % 20, i FROM generate_series(1, 60) i;
