-- References to a UNIQUE column that is mostly NULL, from columns that may not be NULL and from ones that may.
CREATE TABLE letters (letter_id text PRIMARY KEY, postmark bigint, sort integer, weight integer NOT NULL, UNIQUE (postmark), UNIQUE (sort, weight));
CREATE TABLE boxes (box integer PRIMARY KEY, newest bigint NOT NULL REFERENCES letters (postmark), oldest bigint REFERENCES letters (postmark), colour text);
CREATE TABLE stamps (stamp integer PRIMARY KEY, sort integer NOT NULL, weight integer NOT NULL, price numeric(6,2), FOREIGN KEY (sort, weight) REFERENCES letters (sort, weight));
INSERT INTO letters SELECT 'letter ' || i, CASE WHEN i % 3 = 0 THEN 1000 + i END, CASE WHEN i % 2 = 0 THEN i END, i % 40 FROM generate_series(1, 600) i;
INSERT INTO boxes SELECT i, 1003 + 3 * (i * 7 % 190), CASE WHEN i % 2 = 0 THEN 1003 + 3 * (i % 50) END, 'colour ' || i % 3 FROM generate_series(1, 300) i;
INSERT INTO stamps SELECT i, 2 * (i % 299 + 1), 2 * (i % 299 + 1) % 40, i % 90 FROM generate_series(1, 400) i;
