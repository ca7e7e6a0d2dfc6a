-- Partitions by list, of text and of enums, with NULL and a default.
CREATE TYPE zone AS ENUM ('north', 'south', 'east');
CREATE TABLE sale (id integer NOT NULL, region text, n integer) PARTITION BY LIST (region);
CREATE TABLE sale_eu PARTITION OF sale FOR VALUES IN ('de', 'fr', NULL);
CREATE TABLE sale_us PARTITION OF sale FOR VALUES IN ('us');
INSERT INTO sale SELECT i, (ARRAY['de', 'fr', 'us', NULL])[1 + i % 4], i FROM generate_series(1, 200) i;
CREATE TABLE trip (id integer, zone zone NOT NULL, n integer, PRIMARY KEY (id, zone)) PARTITION BY LIST (zone);
CREATE TABLE trip_n PARTITION OF trip FOR VALUES IN ('north');
CREATE TABLE trip_rest PARTITION OF trip DEFAULT;
INSERT INTO trip SELECT i, (ARRAY['north', 'south', 'east'])[1 + i % 3]::zone, i FROM generate_series(1, 200) i;
