-- Literals of DuckDB, each under PostgreSQL's type for it and with PostgreSQL's text of it; read by test_sources_types.py.

--- boolean
true
=> true
--- smallint
(-128)::TINYINT
=> -128
--- smallint
(-32768)::SMALLINT
=> -32768
--- integer
(-2147483648)::INTEGER
=> -2147483648
--- bigint
9223372036854775807::BIGINT
=> 9223372036854775807
--- smallint
255::UTINYINT
=> 255
--- integer
65535::USMALLINT
=> 65535
--- bigint
4294967295::UINTEGER
=> 4294967295
--- numeric(20,0)
18446744073709551615::UBIGINT
=> 18446744073709551615
--- numeric(39,0)
(-170141183460469231731687303715884105727)::HUGEINT
=> -170141183460469231731687303715884105727
--- numeric(39,0)
340282366920938463463374607431768211455::UHUGEINT
=> 340282366920938463463374607431768211455
--- real
0.1::FLOAT
=> 0.1
--- real
'-inf'::FLOAT
=> -Infinity
--- double precision
1e-300::DOUBLE
=> 1e-300
--- double precision
'nan'::DOUBLE
=> NaN
--- numeric(18,3)
(-1234567.891)::DECIMAL(18,3)
=> -1234567.891
--- text
'it''s "a", b\
c'::VARCHAR
=> it's "a", b\
c
--- text
''
=>
--- text
'null'
=> null
--- text
'b'::ENUM('a', 'b')
=> b
--- bytea
'\x00\xAA'::BLOB
=> \x00aa
--- bytea
''::BLOB
=> \x
--- bit varying
'0101'::BIT
=> 0101
--- json
'{"a": 1,  "a": null}'::JSON
=> {"a": 1,  "a": null}
--- uuid
'c0ffee00-0000-4000-8000-000000000001'::UUID
=> c0ffee00-0000-4000-8000-000000000001
--- date
'2024-02-29'::DATE
=> 2024-02-29
--- date
'0044-03-15 (BC)'::DATE
=> 0044-03-15 BC
--- date
'-infinity'::DATE
=> -infinity
--- time without time zone
'24:00:00'::TIME
=> 24:00:00
--- time without time zone
'23:59:59.1234567'::TIME_NS
=> 23:59:59.123457
--- time with time zone
'12:00:00.5-05:30'::TIMETZ
=> 12:00:00.5-05:30
--- timestamp without time zone
'2024-02-29 12:00:00.000001'::TIMESTAMP
=> 2024-02-29 12:00:00.000001
--- timestamp without time zone
'0044-03-15 (BC) 12:00:00'::TIMESTAMP
=> 0044-03-15 12:00:00 BC
--- timestamp without time zone
'infinity'::TIMESTAMP
=> infinity
--- timestamp without time zone
'2024-02-29 12:00:00'::TIMESTAMP_S
=> 2024-02-29 12:00:00
--- timestamp without time zone
'2024-02-29 12:00:00.125'::TIMESTAMP_MS
=> 2024-02-29 12:00:00.125
--- timestamp without time zone
'2024-02-29 12:00:00.123456789'::TIMESTAMP_NS
=> 2024-02-29 12:00:00.123457
--- timestamp with time zone
'2024-02-29 12:00:00+02:00'::TIMESTAMPTZ
=> 2024-02-29 10:00:00+00
--- interval
INTERVAL '-14 months 3 days -4 hours 0.5 seconds'
=> -1 years -2 mons +3 days -03:59:59.5
--- integer[]
[1, NULL, 3]::INTEGER[]
=> {1,NULL,3}
--- double precision[]
[1.5, 2]::DOUBLE[2]
=> {1.5,2}
--- text[]
['a', NULL, '', 'NULL', '"\,{}']
=> {a,NULL,"","NULL","\"\\,{}"}
--- text[]
[]::VARCHAR[]
=> {}
--- text[]
['a]', 'b']::ENUM('a]', 'b')[]
=> {a],b}
--- date[]
[DATE '2024-02-29', NULL]
=> {2024-02-29,NULL}
--- numeric(9,2)[]
[1.25::DECIMAL(9,2)]
=> {1.25}
--- bytea[]
['\xAA'::BLOB]
=> {"\\xaa"}
