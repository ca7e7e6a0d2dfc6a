-- Inheritance: rows in parent and children, two parents, inherited CHECKs, NO INHERIT.
-- canaries: quokkanary
CREATE TABLE animal (id integer PRIMARY KEY, name text NOT NULL, legs integer CHECK (legs >= 0), CHECK (length(name) > 0), CONSTRAINT only_here CHECK (id < 1000) NO INHERIT);
CREATE TABLE pet (owner text DEFAULT 'nobody');
CREATE TABLE dog (breed text, PRIMARY KEY (id)) INHERITS (animal, pet);
CREATE TABLE puppy (age integer CHECK (age < 2)) INHERITS (dog);
INSERT INTO animal SELECT i, 'quokkanary ' || i, 4 FROM generate_series(1, 120) i;
INSERT INTO dog SELECT i, 'quokkanary ' || i, 4, 'quokkanary ' || i, 'pug' FROM generate_series(1001, 1120) i;
INSERT INTO puppy SELECT i, 'quokkanary ' || i, 4, NULL, 'pug', i % 2 FROM generate_series(2001, 2120) i;
INSERT INTO pet SELECT 'quokkanary ' || i FROM generate_series(1, 100) i;
