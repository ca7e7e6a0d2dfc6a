-- Statements of a log, each under the query that they run; read by test_capture_logs.py.

--- SELECT a FROM t WHERE (b = 1)
statement: COPY (SELECT a FROM t WHERE (b = 1)) TO STDOUT (FORMAT csv)
--- SELECT a FROM t
statement: declare c no scroll cursor with hold for SELECT a FROM t
--- SELECT a FROM t WHERE b='5' AND c='it''s' AND d=NULL
statement: EXECUTE p (5, 'it''s', NULL)
prepare: PREPARE p (int, text, int) AS SELECT a FROM t WHERE b=$1 AND c=$2 AND d=$3
--- SELECT b FROM t
statement: EXECUTE p
prepare: PREPARE p AS SELECT b FROM t
