-- time and timetz with precisions.
-- canaries: 13:37:42.918273
CREATE TABLE shift (id integer PRIMARY KEY, starts time NOT NULL, ends time(0), zoned timetz, exact timetz(3));
INSERT INTO shift SELECT i, make_time(i % 24, i % 60, 0), make_time(i % 24, 0, 0), (make_time(i % 24, 30, 0) || '+02')::timetz, '12:00:00.123-08' FROM generate_series(1, 150) i;
INSERT INTO shift VALUES (900, '24:00', NULL, '24:00:00-15:59', NULL), (901, '13:37:42.918273', '00:00', NULL, NULL);
