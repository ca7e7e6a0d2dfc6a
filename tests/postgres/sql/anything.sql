-- What may stand in a target, each under what a load says of it; read by test_postgres_load.py.

--- table public.keep
CREATE TABLE keep (i int)
--- function public.keep\(\)
CREATE FUNCTION keep() RETURNS int LANGUAGE sql AS 'SELECT 1'
--- type public.keep
CREATE TYPE keep AS ENUM ('a')
--- schema keep
CREATE SCHEMA keep
