-- CHECKs, each under the limits that it sets to column c; read by test_encoding_checks.py.

--- low 0; high 120
((c >= 0) AND (c <= 120))
--- low 1, high 5
(c BETWEEN 1 AND 5)
--- low 0, strict True
(c > (0)::numeric)
--- low 0, strict True
((0)::numeric < c)
--- low -5
(c >= '-5'::integer)
--- low -5
(c >= (-5))
--- none
(d < '2020-01-01'::date)
--- high 2020-01-01
(c <= '2020-01-01'::date)
--- values ('a', 'b')
(c = ANY (ARRAY['a'::text, 'b'::text]))
--- values ('a', 'b')
((c)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))
--- values ('a', 'b')
((c)::text = ANY ('{a,b}'::text[]))
--- values ('1', '2')
((c = 1) OR (c = 2))
--- low 3, strict True
((c IS NULL) OR (c > 3))
--- longest 20
(char_length((c)::text) <= 20)
--- shortest 3
(length(c) > 2)
--- shortest 1
(c <> ''::text)
--- low 0, strict True
CHECK (c > 0) NOT VALID
