CREATE TABLE town (id integer PRIMARY KEY, name varchar(20) NOT NULL, size smallint);
CREATE TABLE person (
  id integer PRIMARY KEY, town integer REFERENCES town, note text, age integer, born date);
INSERT INTO town SELECT g, 'town ' || g, g FROM generate_series(1, 8) g;
INSERT INTO person SELECT g, g % 8 + 1, 'note ' || g % 5, g % 70, '2001-02-03'
FROM generate_series(1, 400) g;
