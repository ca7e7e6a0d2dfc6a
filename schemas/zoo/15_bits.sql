-- bit(n) and bit varying, bounded and not.
-- canaries: 1100101011111110101110101011
CREATE TABLE mask (id integer PRIMARY KEY, one bit NOT NULL, eight bit(8), few bit varying(5), any_ bit varying, rights bit(4) NOT NULL UNIQUE DEFERRABLE);
INSERT INTO mask SELECT i, (i % 2)::bit, i::bit(8), '101', B'1100101011111110101110101011', i::bit(4) FROM generate_series(0, 15) i;
