-- Expressions of computed columns, each under a pattern of what the refusal says; read by
-- test_computed_columns.py. The row is one of public.bill, which has columns id, net, tax and gross.

--- it is not one expression of SQL
1; DROP TABLE public.bill
--- it is not one expression of SQL
1), (2
--- it is not one expression of SQL
1) + (2
--- it is not one expression of SQL
1 AS x
--- it is not one expression of SQL
1 FROM public.bill b
--- it is not one expression of SQL
1 ORDER BY 1
--- it is not one expression of SQL
DISTINCT 1
--- it is not one expression of SQL
1) INTO x --
--- it is not one expression of SQL
'no end
--- it is not one expression of SQL
1 /* no end
--- it calls pg_sleep
pg_sleep(1000) IS NULL
--- it calls pg_catalog.pg_read_file
pg_catalog.pg_read_file('/etc/passwd')
--- it calls nextval
nextval('public.bill_id_seq')
--- it calls setval
setval('public.bill_id_seq', 1)
--- it calls random
random()
--- it calls gen_random_uuid
gen_random_uuid()
--- it calls pg_catalog.clock_timestamp
pg_catalog.clock_timestamp()
--- it calls dblink
(SELECT dblink('host=evil', 'SELECT 1'))
--- it calls public.mine
public.mine(this.net)
--- it calls lo_export
lo_export(1, '/tmp/x')
--- it calls query_to_xml
query_to_xml('TABLE secret', true, true, '')
--- it calls set_config
set_config('search_path', 'public', false)
--- it calls current_setting
current_setting('data_directory')
--- it calls txid_current
txid_current()
--- it calls pg_notify
(SELECT pg_notify('a', 'b'))
--- it reads pg_catalog.pg_authid
(SELECT max(a.rolpassword) FROM pg_catalog.pg_authid a)
--- it reads pg_authid
(SELECT max(a.rolpassword) FROM pg_authid a)
--- it reads information_schema.tables
(SELECT count(*) FROM information_schema.tables t)
--- it reads other.bill
(SELECT max(b.id) FROM other.bill b)
--- it reads public.view
(SELECT max(v.net) FROM public.view v)
--- it reads line
(SELECT sum(l.qty) FROM line l)
--- it reads db.public.line
(SELECT sum(l.qty) FROM db.public.line l)
--- it names net, but a column is named with its row
net + 1
--- it names qty, but a column is named with its row
(SELECT sum(qty) FROM public.line l)
--- it names this, but a column is named with its row
this IS NULL
--- it names l, but a column is named with its row
(SELECT count(l) FROM public.line l)
--- it names public.line.qty, but a column
(SELECT sum(public.line.qty) FROM public.line)
--- it names x.qty, but a column
x.qty
--- it reads this.pg_read_file, which is no stored|it selects pg_read_file
this.pg_read_file
--- it reads this.mine, which is no stored|it selects mine
this.mine
--- it reads l.count, which is no stored|it selects count
(SELECT l.count FROM public.line l)
--- it reads this.ctid, which is no stored
this.ctid
--- it reads l.tableoid, which is no stored
(SELECT l.tableoid FROM public.line l)
--- it reads this.qty, which is no stored
this.qty
--- it gives the name this to another row
(SELECT sum(this.qty) FROM public.line this)
--- it gives the name this to another row
(SELECT max(this.a) FROM (SELECT 1 AS a) this)
--- it joins or renames columns
(SELECT sum(l.net) FROM public.line l (net))
--- it joins or renames columns
(SELECT count(*) FROM public.line l JOIN public.line m USING (bill_id))
--- it joins or renames columns
(SELECT count(*) FROM public.line l NATURAL JOIN public.line m)
--- it joins or renames columns
(SELECT sum(j.qty) FROM (public.line l JOIN public.line m ON l.qty = m.qty) j)
--- it reads line, which is no table
(WITH line AS (SELECT 1 AS qty) SELECT sum(l.qty) FROM line l)
--- it reads gone, which is no table
(WITH gone AS (DELETE FROM public.line RETURNING qty) SELECT count(*) FROM gone g)
--- it holds a node of kind RangeFunction
(SELECT count(*) FROM generate_series(1, 1000000000) g)
--- it holds a node of kind RangeTableSample
(SELECT count(*) FROM public.line l TABLESAMPLE system (1))
--- it names \*, but a column
(SELECT count(*) FROM (SELECT * FROM public.line l) m)
--- it holds a node of kind LockingClause
(SELECT sum(l.qty) FROM public.line l FOR UPDATE)
--- it holds a node of kind ParamRef
$1
--- it uses the operator public.===
this.net OPERATOR(public.===) 1
--- it names the type public.pair
this.net::public.pair
--- it names the type regclass
'pg_authid'::regclass::oid
--- it selects rolpassword
(NULL::pg_authid).rolpassword
--- it names the collation public.mine
'a' < 'b' COLLATE public.mine
--- it depends on itself
this.gross + 1
--- it depends on itself
(SELECT sum(b.gross) FROM public.bill b WHERE b.id < this.id)
--- the expression is nested too deeply
((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
--- it reads pg_catalog.pg_authid
(SELECT count(*) FROM pg_catalog.pg_authid a)
--- it reads pg_authid
(SELECT count(*) FROM pg_authid a)
--- it names the type pg_authid
(NULL::pg_authid) IS NULL
--- it is not one expression of SQL
1 /* */, 2
--- it holds a node of kind CommonTableExpr|it holds a node of kind WithClause
(WITH l AS (SELECT 1 AS a) SELECT sum(m.qty) FROM public.line m)
