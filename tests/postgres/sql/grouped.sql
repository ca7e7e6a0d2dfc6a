-- Expressions of a bill: aggregates that groups give as well, and what none gives; read by
-- test_postgres_computed.py.
--- grouped
(SELECT coalesce(sum(l.qty * l.price), 0) FROM public.line l WHERE l.bill_id = this.id)
--- grouped
((SELECT count(*) FILTER (WHERE l.qty > 2) + 1 FROM public.line l WHERE this.id = l.bill_id AND l.price > 2 -- x
))
--- grouped
(SELECT max(line.price) - min(line.price) FROM public.line WHERE line.bill_id = this.customer_id)
--- grouped
(SELECT "sum"(l.qty) / count(l.price) FROM public.line l WHERE (l.bill_id = this.id) AND l.qty < 3)
--- alone
(SELECT l.qty FROM public.line l WHERE l.bill_id = this.id)
--- alone
(SELECT sum(l.qty) FROM public.line l WHERE l.bill_id > this.id)
--- alone
(SELECT sum(l.qty + this.id) FROM public.line l WHERE l.bill_id = this.id)
--- alone
(SELECT sum(l.qty) FROM public.line l WHERE l.bill_id = this.id OR l.qty = 1)
--- alone
(SELECT sum(l.qty) FROM public.line l WHERE l.bill_id = this.id GROUP BY l.price)
--- alone
(SELECT sum(l.qty) FROM public.line l, public.line m WHERE l.bill_id = this.id)
--- alone
(SELECT sum(l.qty) FROM public.line l WHERE l.bill_id = this.id LIMIT 1 OFFSET 1)
--- alone
(SELECT sum(l.qty) OVER () FROM public.line l WHERE l.bill_id = this.id)
--- alone
(SELECT sum(l.this) FROM public.line l WHERE l.bill_id = this.id)
--- alone
1 + (SELECT sum(l.qty) FROM public.line l WHERE l.bill_id = this.id)
--- alone
EXISTS (SELECT count(*) FROM public.line l WHERE l.bill_id = this.id)
