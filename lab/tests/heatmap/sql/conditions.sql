-- Conditions on columns, by column; read by test_metrics_modeltree.py.

--- small
small = 3
small <> 3
4 > small
small BETWEEN 1 AND 5
small IN (1, 2, 77)
small NOT IN (1, 2)
NOT (small < 2 OR small > 6)
small IS NULL
small IS NOT NULL
small >= 2.5
small = 2.5
small = 1 OR small IS NULL
NOT (small = 1 AND small IS NULL)
small > '-2'::integer
--- day
day >= '2020-02-01'::date
day < date '2020-01-05'
day = '2020-01-09'
--- word
word = 'red'
word <> 'red'
word IN ('x', 'red', 'absent')
word IS NULL
--- label
label = 'red'
label <> 'red'
label IN ('x', 'absent')
label IS NULL
NOT (label = 'red' OR label = 'x')
--- flag
flag
NOT flag
flag = false
flag IS TRUE
flag IS NOT TRUE
--- price
price < 12.345
price >= 12.34
price = 3.7
