CREATE TABLE secret (word text);
CREATE TYPE pair AS (a int, b int);
CREATE FUNCTION mine(int) RETURNS boolean LANGUAGE plpgsql AS
  $$BEGIN RAISE EXCEPTION 'it ran'; END$$;
CREATE OPERATOR === (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq);
CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, s text, pair pair, "column 2" text);
