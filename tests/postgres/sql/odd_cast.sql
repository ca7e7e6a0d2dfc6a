CREATE TYPE odd AS (x text);
CREATE FUNCTION f(odd) RETURNS text LANGUAGE plpgsql
  AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'data_exception'; END $$;
CREATE CAST (odd AS text) WITH FUNCTION f(odd);
ALTER TABLE town DROP name, ADD name odd DEFAULT ROW('a');
INSERT INTO town VALUES (1);
