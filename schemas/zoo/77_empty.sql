-- A database without tables: a schema, a type and a function alone.
CREATE SCHEMA later;
CREATE TYPE later.state AS ENUM ('a');
CREATE FUNCTION later.f() RETURNS integer LANGUAGE sql AS 'SELECT 1';
