-- A canary under its type, what other rows hold, and how it is printed where that is otherwise.

--- text
Canary-Quetzal-7781
'note ' || i
--- varchar(40)
kestrel.canary@hidden.example
'c' || i || '@shop.example'
--- char(24)
canary wombat bravo zulu
'padded ' || i
--- name
canary_name_zyzzyva
'name_' || i
--- shortened
canary-domain-okapi
'short ' || i % 3
--- pair
(918273001,"canary composite")
'(' || i || ',x)'
canary composite
--- bigint
7364518290918
i * 1000
--- integer
1918273645
i * 7 % 90
--- oid
3918273645
i
--- numeric
31415926535.89793238
i * 3.5
--- numeric(16,4)
271828182845.9045
i * 1.25
--- money
$161,803,398.87
(i * 3)::text
--- real
7.718282e+22
i * 0.5
--- double precision
8.12345678901234e+77
i * 0.25
--- date
1234-05-06
date '2015-01-01' + i * 5 % 900
--- timestamp
1235-06-07 04:03:02.123457
timestamp '2015-01-01' + i * interval '7h'
--- timestamptz
1236-07-08 05:04:03.234568+00
timestamptz '2015-01-01 00:00+00'
--- time
03:14:15.926535
time '08:00' + i * interval '1 minute'
--- timetz
02:17:18.281828+13:45
timetz '08:00+00'
--- interval
1618 years 3 mons 3 days 09:08:07.654321
i * interval '1 hour'
--- uuid
cafecafe-1234-4bcd-8def-feedfacebeef
gen_random_uuid()
--- bytea
\xdeadbeefcafe77817781
decode(md5(i::text), 'hex')
deadbeefcafe77817781
--- varbit
110010101111111011001010111111101011101010111110
B'1010'
--- inet
198.51.100.217/27
'10.0.0.1'
--- cidr
203.0.113.208/29
'10.0.0.0/8'
--- macaddr
de:ad:be:ef:77:81
'00:00:00:00:00:01'
--- macaddr8
de:ad:be:ef:77:81:ca:fe
'00:00:00:00:00:00:00:01'
--- json
{"canary": "json-ibex"}
'{"a": 1}'
json-ibex
--- jsonb
{"canary": "jsonb-lynx"}
'{"a": 1}'
jsonb-lynx
--- jsonpath
$."canaryjsonpath"
'$.a'
canaryjsonpath
--- text[]
{canary-array-stoat,b}
'{a,b}'
canary-array-stoat
--- bigint[]
{7364518290919,7364518290920}
'{1,2}'
7364518290919
--- int8range
[7364518290921,7364518290922)
'[1,2)'
7364518290921
--- daterange
[1237-08-09,1237-08-10)
'[2015-01-01,2015-02-01)'
1237-08-09
--- int8multirange
{[7364518290923,7364518290924)}
'{[1,2)}'
7364518290923
--- tsvector
'canarylexem':7
'''word'':1'
canarylexem
--- tsquery
'canaryquery'
'''word'''
canaryquery
--- point
(918273.645,546372.819)
'(1,2)'
918273.645
--- circle
<(12345.678,1),918273.646>
'<(1,2),3>'
918273.646
--- pg_lsn
DEADBEEF/77817781
'0/1'
