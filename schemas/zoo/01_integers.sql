-- Integers of every width, down to their least and greatest values.
-- canaries: 918273645 | 7766554433221100
CREATE TABLE reading (
  id integer PRIMARY KEY, small smallint, medium integer NOT NULL, large bigint, flag smallint NOT NULL DEFAULT 0);
INSERT INTO reading SELECT i, i % 40, i * 7, i * 100000, i % 2 FROM generate_series(1, 180) i;
INSERT INTO reading VALUES
  (1001, -32768, -2147483648, -9223372036854775808, 1),
  (1002, 32767, 2147483647, 9223372036854775807, 0),
  (1003, NULL, 918273645, 7766554433221100, 1);
