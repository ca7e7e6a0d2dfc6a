-- EXCLUDE over ranges, with a condition, deferrable, over an expression.
CREATE TABLE room (id integer PRIMARY KEY, during tstzrange NOT NULL, EXCLUDE USING gist (during WITH &&));
INSERT INTO room SELECT i, tstzrange('2024-01-01'::timestamptz + i * interval '1 day', '2024-01-01'::timestamptz + i * interval '1 day' + interval '3 h') FROM generate_series(1, 120) i;
CREATE TABLE stay (id integer PRIMARY KEY, a date NOT NULL, b date NOT NULL, cancelled boolean NOT NULL, CHECK (a < b), EXCLUDE USING gist (daterange(a, b) WITH &&) WHERE (NOT cancelled) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO stay SELECT i, '2024-01-01'::date + i * 3, '2024-01-03'::date + i * 3, i % 4 = 0 FROM generate_series(1, 150) i;
CREATE TABLE spot (id integer PRIMARY KEY, area circle, EXCLUDE USING gist (area WITH &&));
INSERT INTO spot SELECT i, circle(point(i * 10, 0), 2) FROM generate_series(1, 120) i;
CREATE TABLE slot (id integer PRIMARY KEY, n integer NOT NULL, EXCLUDE USING btree (n WITH =));
INSERT INTO slot SELECT i, i * 3 FROM generate_series(1, 120) i;
