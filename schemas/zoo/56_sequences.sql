-- serial of all sizes, one sequence for two tables, sequences of nobody, keys past them.
-- canaries: 918273645
CREATE SEQUENCE shared START 50; CREATE SEQUENCE lonely INCREMENT -5 MAXVALUE 100 START 100 CYCLE; CREATE SEQUENCE "Odd ""Seq""" AS smallint;
CREATE TABLE one (id integer PRIMARY KEY DEFAULT nextval('shared'), n integer);
CREATE TABLE two (id integer PRIMARY KEY DEFAULT nextval('shared'), code text NOT NULL DEFAULT 'C' || nextval('"Odd ""Seq"""'));
CREATE TABLE three (a smallserial PRIMARY KEY, b serial NOT NULL UNIQUE, c bigserial);
INSERT INTO one (n) SELECT i FROM generate_series(1, 120) i;
INSERT INTO two (id) SELECT nextval('shared') FROM generate_series(1, 120) i;
INSERT INTO three SELECT FROM generate_series(1, 120);
SELECT setval('lonely', 35); SELECT setval('three_c_seq', 918273645);
