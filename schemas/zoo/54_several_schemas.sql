-- Several schemas with tables, types and sequences of the same names, and keys between them.
-- canaries: quokkanary
CREATE SCHEMA sales; CREATE SCHEMA hr; CREATE SCHEMA "Über Lager"; CREATE SCHEMA empty_one;
CREATE TYPE sales.state AS ENUM ('x', 'y'); CREATE TYPE hr.state AS ENUM ('p', 'q');
CREATE TABLE hr.person (id serial PRIMARY KEY, state hr.state NOT NULL, name text);
CREATE TABLE sales.person (id serial PRIMARY KEY, state sales.state NOT NULL, hr_id integer REFERENCES hr.person);
CREATE TABLE "Über Lager".person (id serial PRIMARY KEY, s integer NOT NULL REFERENCES sales.person);
CREATE TABLE public.person (id serial PRIMARY KEY, l integer REFERENCES "Über Lager".person);
INSERT INTO hr.person (state, name) SELECT 'p', 'quokkanary ' || i FROM generate_series(1, 120) i;
INSERT INTO sales.person (state, hr_id) SELECT 'y', i FROM generate_series(1, 120) i;
INSERT INTO "Über Lager".person (s) SELECT i FROM generate_series(1, 120) i;
INSERT INTO public.person (l) SELECT i FROM generate_series(1, 120) i;
