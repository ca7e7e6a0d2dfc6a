INSERT INTO s.t (a, b) SELECT a, lower(b) FROM u ON CONFLICT (a) WHERE a > 0 DO UPDATE SET b = excluded.b RETURNING * -- kept
UPDATE ONLY t SET (a, b) = (1, DEFAULT), c[1] = 2 FROM u WHERE t.i = u.i -- kept
DELETE FROM t USING u WHERE t.i = u.i AND u.at < now() -- kept
INSERT INTO t DEFAULT VALUES -- kept
INSERT INTO t VALUES (lo_import('/etc/passwd'))
INSERT INTO t VALUES (nextval('s'))
INSERT INTO t SELECT a FROM dblink('x', 'DELETE FROM u') AS r (a int)
UPDATE t SET a = f(a)
UPDATE t SET a = (b).lo_unlink
DELETE FROM t WHERE CURRENT OF c
DELETE FROM pg_authid
UPDATE pg_catalog.pg_class SET relname = 'x'
INSERT INTO t VALUES (2); DROP TABLE t
COPY t FROM PROGRAM 'x'
COMMIT
COMMIT PREPARED 'x'
