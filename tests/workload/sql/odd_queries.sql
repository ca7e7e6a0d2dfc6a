-- Queries that are hard to split; read by test_workload_formats.py.
--- 
SELECT ';' || 'it''s;' FROM t
--- 
SELECT "a;b" FROM "odd;name"
--- 
SELECT $$;$$, $tag$ $$;$$ $tag$
--- 
SELECT 1 /* a; /* nested; */ b; */ + 1
--- 
SELECT 1 -- a; b
+ 1
--- 
SELECT E'\';' || U&'\0061;'
--- 
SELECT a

  FROM t	WHERE x = ';'
--- 
/*+ SeqScan(t) */ SELECT 2 FROM t -- end
