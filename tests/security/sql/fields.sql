SELECT ('public.s'::regclass).nextval
SELECT v."nextval" FROM (SELECT 's'::regclass AS nextval) AS v, victim
SELECT s.nextval FROM COALESCE('s'::regclass) AS s(a)
SELECT ROW(1, (ARRAY['s'::regclass])[1].nextval)
SELECT (SELECT 's'::regclass).nextval FROM victim
SELECT victim.rows_of FROM victim
SELECT (v).rows_of FROM victim v
SELECT (ARRAY[v])[1].rows_of FROM victim v
SELECT ((v).rows_of).value_of FROM victim v
SELECT ('x'::text).value_of
SELECT (v.name).value_of FROM victim v ORDER BY 1
