-- Types that tell numbers apart: a value for number i of each, and CHECKs that these values keep; read by schemas_at_random.py.

--- integer
({i})::integer
{c} >= 0
{c} < 1000000
{c} % 1 = 0
--- smallint
({i})::smallint
{c} BETWEEN 0 AND 30000
--- bigint
({i})::bigint * 1000003
{c} % 1000003 = 0
--- numeric(9,2)
({i}) * 1.25
{c} >= 0.5
--- text
't' || ({i})
length({c}) < 40
{c} LIKE 't%%'
{c} <> ''
--- varchar(12)
'v' || ({i})
char_length({c}) > 1
--- char(6)
lpad(({i})::text, 6, '0')
{c} ~ '^[0-9]{{6}}$'
--- date
'2020-01-01'::date + ({i})
{c} > '1990-01-01'
--- timestamptz
'2020-01-01'::timestamptz + ({i}) * interval '1 h'
--- uuid
md5(({i})::text)::uuid
--- bytea
decode(lpad(to_hex({i}), 8, '0'), 'hex')
octet_length({c}) = 4
--- inet
'10.0.0.0'::inet + ({i})
--- interval
make_interval(secs => {i})
{c} >= interval '0'
--- positive
({i}) + 1
--- code
'AB' || lpad(({i})::text, 4, '0')
