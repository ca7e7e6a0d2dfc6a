-- Primary keys that are foreign keys: subtypes, one to one, chains of them.
-- canaries: quokkanary
CREATE TABLE party (id integer PRIMARY KEY, name text NOT NULL);
INSERT INTO party SELECT i, 'quokkanary ' || i FROM generate_series(1, 150) i;
CREATE TABLE person (id integer PRIMARY KEY REFERENCES party ON DELETE CASCADE, born date);
INSERT INTO person SELECT i, '1980-01-01'::date + i FROM generate_series(1, 120) i;
CREATE TABLE employee (id integer PRIMARY KEY REFERENCES person, boss integer REFERENCES employee, salary numeric(9, 2));
INSERT INTO employee SELECT i, nullif(i / 5, 0), 1000 + i FROM generate_series(1, 100) i;
CREATE TABLE login (employee integer NOT NULL UNIQUE REFERENCES employee, nick text NOT NULL);
INSERT INTO login SELECT i, 'quokkanary' || i FROM generate_series(1, 90) i;
