-- Foreign keys to a partitioned table, from one, and on a single partition.
CREATE TABLE client (id integer PRIMARY KEY, region integer NOT NULL);
INSERT INTO client SELECT i, i % 3 FROM generate_series(1, 120) i;
CREATE TABLE bill (id integer, at date NOT NULL, client integer NOT NULL REFERENCES client, special integer, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE bill_1 PARTITION OF bill FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
CREATE TABLE bill_2 PARTITION OF bill FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
ALTER TABLE bill_2 ADD FOREIGN KEY (special) REFERENCES client;
INSERT INTO bill SELECT i, '2023-06-01'::date + i, 1 + i % 120, CASE WHEN i > 250 THEN 1 + i % 120 END FROM generate_series(1, 400) i;
CREATE TABLE line (bill integer, at date, no smallint, n integer NOT NULL, PRIMARY KEY (bill, at, no), FOREIGN KEY (bill, at) REFERENCES bill ON DELETE CASCADE);
INSERT INTO line SELECT id, at, 1, id % 7 FROM bill;
