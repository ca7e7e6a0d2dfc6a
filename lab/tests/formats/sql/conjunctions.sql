-- Conjunctions, each under its line in the form of MSCN; read by test_formats.py.

--- title t##t.year,>=,1,t.year,<=,2#
SELECT COUNT(*) FROM "public"."title" AS "t" WHERE "t"."year" BETWEEN 1 AND 2;
--- a,b x#a.i=x.j#a.k,>,-2,x.Name,=,'u'#
select count(*) from a JOIN b x ON (a.i = x.j AND a.k > -2) WHERE 'u' = x.Name
--- shop.a,b###
SELECT COUNT(*) FROM shop.a CROSS JOIN b
--- a##a.x,<,5#
SELECT COUNT(*) FROM a WHERE 5 > a.x
