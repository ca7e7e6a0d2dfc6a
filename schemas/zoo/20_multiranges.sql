-- Multiranges.
-- canaries: 918273645
CREATE TABLE opening (id integer PRIMARY KEY, hours int4multirange NOT NULL, days datemultirange, big int8multirange, num nummultirange, t tsmultirange, z tstzmultirange);
INSERT INTO opening SELECT k, int4multirange(int4range(k, k + 2), int4range(k + 10, 918273645)), '{}', NULL, '{[1,2]}', '{}', '{}' FROM generate_series(1, 150) k;
