CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE town (id integer PRIMARY KEY, name varchar(20) NOT NULL, size smallint, open time);
CREATE TABLE person (
  id integer PRIMARY KEY, town integer REFERENCES town, note text, age integer, born date,
  moods mood[], mood mood, stay daterange, paid numeric(8,2), seen timestamptz, took interval,
  body jsonb, tag uuid, CHECK (age >= 0));
INSERT INTO town SELECT g, 'town ' || g, g, '12:30' FROM generate_series(1, 8) g;
INSERT INTO person SELECT g, g % 8 + 1, 'note ' || g % 5, g % 70, '2001-02-03', '{sad}', 'glad',
  '[2001-01-01,2001-02-01)', g * 0.5, now(), '1 hour', '{}', gen_random_uuid()
FROM generate_series(1, 600) g;
CREATE VIEW seen AS SELECT * FROM person;
