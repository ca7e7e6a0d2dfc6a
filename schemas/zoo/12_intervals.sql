-- interval, with fields and precisions, negative and mixed.
-- canaries: 91827 days
CREATE TABLE lease (id integer PRIMARY KEY, length interval NOT NULL, months interval month, exact interval second(2), waited interval DEFAULT '0');
INSERT INTO lease SELECT i, make_interval(days => i), make_interval(months => i % 24), make_interval(secs => i / 7.0), NULL FROM generate_series(1, 150) i;
INSERT INTO lease VALUES (900, '-3 years 2 mons -1 day 04:05:06.789', NULL, NULL, NULL), (901, '91827 days 13:14:15', NULL, NULL, NULL);
