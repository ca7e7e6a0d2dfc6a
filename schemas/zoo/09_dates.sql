-- date with infinities and years before Christ.
-- canaries: 1471-03-09
CREATE TABLE event (id integer PRIMARY KEY, day date NOT NULL, until date, born date CHECK (born > '1880-01-01'));
INSERT INTO event SELECT i, '2020-01-01'::date + i, '2021-01-01'::date + i % 50, '1950-01-01'::date + i * 30 FROM generate_series(1, 180) i;
INSERT INTO event VALUES (900, 'infinity', '-infinity', NULL), (901, '4713-01-01 BC', '5874897-12-31', NULL), (902, '1471-03-09', NULL, NULL);
