-- Rules of a config, each under a pattern of what the refusal says; read by test_rules.py.

--- it is not one expression of SQL
a > 0; DROP TABLE t
--- it is not one expression of SQL
a > 0) OR (a < 0
--- it is not one expression of SQL
a > 0) NOT VALID; COPY t TO PROGRAM 'sh' --
--- it is not one expression of SQL
a > 0 FROM t
--- it is not one expression of SQL
a > 0, a > 1
--- it is not one expression of SQL
a > 0 AS b
--- it is not one expression of SQL
DISTINCT a > 0
--- it is not one expression of SQL
a > 0 UNION SELECT true
--- unterminated quoted string|it is not one expression
s = 'no end
--- it is not one expression of SQL
a > 0 /* no end
--- it holds a node of kind
a = (SELECT max(a) FROM t)
--- it holds a node of kind
EXISTS (SELECT FROM secret)
--- it holds a node of kind
a IN (TABLE secret)
--- it calls pg_read_file
pg_read_file('/etc/passwd') <> s
--- it calls pg_sleep
pg_sleep(10) IS NULL AND a > 0
--- it calls query_to_xml
query_to_xml('TABLE secret', true, true, '') IS NOT NULL AND a > 0
--- it calls nextval
nextval('t_id_seq') > a
--- it calls public\.mine
public.mine(a)
--- it calls mine
mine(a)
--- it uses the operator public\.===
a OPERATOR(public.===) 1
--- it names the type public\.pair
a::public.pair IS NULL
--- it selects pg_read_file
(pair).pg_read_file IS NULL
--- it selects pg_ls_dir
t.pg_ls_dir = s
--- it holds a node of kind ParamRef
a = $1
--- it reads b, which is no column of the table
b > 0
--- it selects a|it reads t.a
t.a > 0
--- it reads t, which is no column of the table
t IS NOT NULL
--- it reads ctid, which is no column of the table
ctid IS NOT NULL
--- it reads xmin, which is no column of the table
xmin::text <> s
--- it reads A, which is no column of the table
"A" > 0
--- it reads no column
1 = 1
--- it reads no column
now() > '2020-01-01'
--- argument of WHERE must be type boolean
a
--- division by zero
a = 0 / 0
--- invalid input syntax for type integer
a > 'x'
--- operator does not exist: integer ~ unknown
a ~ 'x'
--- aggregate functions are not allowed
sum(a) > 0
--- it holds a node|it calls row_number|window functions are not
row_number() OVER () > a
--- it calls generate_series|set-returning functions
generate_series(1, a) > 0
--- the expression is nested too deeply
(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((a > 0)))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
