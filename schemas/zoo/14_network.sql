-- inet, cidr, macaddr and macaddr8; one of them a key.
-- canaries: 2001:db8::1 | c0:ff:ee:00:00:00:00:01
CREATE TABLE host (ip inet PRIMARY KEY, net cidr NOT NULL, mac macaddr UNIQUE, long macaddr8, seen inet[]);
INSERT INTO host SELECT ('203.0.113.' || i)::inet, '203.0.113.0/24', ('c0:ff:ee:00:00:' || lpad(to_hex(i), 2, '0'))::macaddr, NULL, ARRAY[('203.0.113.' || i)::inet] FROM generate_series(1, 150) i;
INSERT INTO host VALUES ('2001:db8::1/64', '2001:db8::/32', NULL, 'c0:ff:ee:00:00:00:00:01', '{}');
CREATE TABLE flow (id integer PRIMARY KEY, source inet NOT NULL REFERENCES host, target inet REFERENCES host ON UPDATE CASCADE);
INSERT INTO flow SELECT i, ('203.0.113.' || 1 + i % 150)::inet, ('203.0.113.' || 1 + i * 7 % 150)::inet FROM generate_series(1, 200) i;
