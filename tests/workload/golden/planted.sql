-- {s} is a text, {n} a number ({h} the same in hexadecimal digits), {d} a date.
SELECT * FROM orders WHERE id = {n};
SELECT * FROM orders WHERE {n} <= id AND id < -{n} AND -id > {n} AND id <> {n}.25;
SELECT o.total FROM orders AS o JOIN customers c ON c.id = o.customer_id AND c.country = '{s}'
    WHERE o.placed >= '{d}' AND o.placed < timestamp '{d}' + interval '30 days' LIMIT 77;
SELECT count(*) FROM customers WHERE country IN ('{s}', '{s}x') AND lower(country) = '{s}'
    AND country LIKE '{s}%' AND country NOT ILIKE '%{s}%{s}' AND born BETWEEN '{d}'
    AND '{d}'::date;
WITH v AS (SELECT customer_id AS cid, sum(total) s FROM orders WHERE status::text = '{s}'
    GROUP BY 1) SELECT * FROM v JOIN customers k ON k.id = v.cid WHERE v.s > {n}.43
    AND cid <> {n} ORDER BY 2;
SELECT date_trunc('month', placed), count(*) FROM orders WHERE extract(year from placed) = {n}
    AND date_trunc('week', placed) = '{d}' GROUP BY 1 HAVING count(*) > {n};
SELECT '{s}' AS label, CASE WHEN note = '{s}' THEN '{s}' ELSE '{s}' END, coalesce(note, '{s}'),
    note || '{s}', {n}, {n} * quantity FROM items WHERE quantity * {n}.5 > -{n};
SELECT data->>'{s}', data#>>'{{{s}}}' FROM docs WHERE data->>'name' = '{s}'
    AND (data->>'size')::int > {n} AND tags @> '{{{s}}}' AND '{s}' = ANY(tags) AND data ? '{s}'
    AND id = ANY('{{{n},{n}1}}'::int[]) AND data @> '{{"{s}": {n}}}'
    AND data->'in'->>'{s}' = '{s}';
SELECT * FROM docs WHERE title ~ '^{s}' AND title !~* '{s}$' AND starts_with(title, '{s}')
    AND position('{s}' in title) > 0 AND (id, title) IN (({n}, '{s}'), ({n}1, '{s}y'))
    AND split_part(title, '{s}', {n}) = '{s}' AND title SIMILAR TO '{s}_%';
SELECT /*+ {s} */ a.id -- {s} {n}
 FROM orders a, orders b /* {s} /* {n} */ '{s}' */ WHERE a.id = b.id + {n}
    AND upper(a.status::text) = E'{s}\'' AND b.id IN (SELECT order_id FROM items WHERE quantity > {n}
    AND items.note = $${s}$$ AND a.id = {n});
SELECT "{s} of it".id AS "My {s}", 1 AS a{n} FROM customers AS "{s} of it" WHERE NOT vip
    AND born = date '{d}' ORDER BY "My {s}" OFFSET {n};
SELECT id FROM customers WHERE id = {n} UNION ALL SELECT customer_id FROM orders
    WHERE note_of({n}) = '{s}' ORDER BY 1 LIMIT {n};
SELECT * FROM (SELECT o.*, row_number() OVER (ORDER BY placed ROWS {n} PRECEDING) rn
    FROM orders o) t (a, b, c) WHERE rn = {n} AND c::text = '{s}' AND a > -{n};
SELECT * FROM customers WHERE born > '{d}'::date - {n} AND age(born) > interval '{n} years'
    AND extract(epoch from now() - born) > {n} AND to_char(born, '{s}') = to_char(born, 'YYYY')
    AND born > make_date({n}, 1, 1) AND born::timestamptz AT TIME ZONE '{s}' > '{d}';
SELECT * FROM docs WHERE mark = '{s}' AND flags = B'1' AND odd = '{s}' AND "User Name" = '{s}'
    AND id IN (VALUES ({n}), ({n}2)) AND U&'{s}' = title AND N'{s}' <> title;
SELECT x.u FROM customers c, LATERAL (SELECT o.total AS t FROM orders o
    WHERE o.customer_id = c.id AND o.id = {n} ORDER BY o.placed DESC LIMIT 5) x(u)
    WHERE u > {n} AND nullif(c.country, '{s}') = '{s}';
SELECT md5('{s}'), generate_series({n}, {n}), ARRAY[{n}, {n}], ROW('{s}', {n}), x
    FROM customers, unnest(ARRAY['{s}']) AS x, (VALUES ({n}, '{s}')) v(p, q) WHERE country = x
    OR q = '{s}';
SELECT id FROM customers WHERE country = '{s}'
'{s}' AND id = 0x{h} AND id <> 1_{n} AND id < .{n}e3 AND EXISTS
    (SELECT FROM orders WHERE orders.customer_id = customers.id AND total IS DISTINCT FROM {n});
