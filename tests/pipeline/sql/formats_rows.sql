INSERT INTO documents (doc) SELECT jsonb_build_object('type', 'a', 'customer',
  jsonb_build_object('id', i)) FROM generate_series(1, 300) i;
INSERT INTO pieces (period, doc) SELECT '2020-0' || 1 + i % 9, 'INV/' || i
  FROM generate_series(1, 300) i;
INSERT INTO spans SELECT 3 * i, 3 * i + 2 FROM generate_series(1, 300) i;
INSERT INTO parted SELECT '{"type": "view"}' FROM generate_series(1, 300) i;
INSERT INTO lists SELECT ARRAY['a', 'b'] FROM generate_series(1, 300) i;
INSERT INTO cast_index SELECT i, i::text FROM generate_series(1, 300) i;
-- Keys of another type than their targets.
CREATE TABLE stamp (k timestamp PRIMARY KEY); CREATE TABLE of_stamp (k date REFERENCES stamp);
CREATE TABLE whole (k double precision PRIMARY KEY); CREATE TABLE of_whole (k int REFERENCES whole);
INSERT INTO stamp SELECT '2020-01-01'::date + i FROM generate_series(1, 300) i;
INSERT INTO of_stamp SELECT k FROM stamp;
INSERT INTO whole SELECT i FROM generate_series(1, 300) i; INSERT INTO of_whole SELECT k FROM whole;
