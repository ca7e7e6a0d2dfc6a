-- Further types: a value for number i of each, and CHECKs that these values keep; read by schemas_at_random.py.

--- boolean
({i}) % 2 = 0
--- double precision
({i}) / 7.0
{c} >= 0
--- jsonb
jsonb_build_object('k', {i})
jsonb_typeof({c}) = 'object'
--- integer[]
ARRAY[{i}, 1]
cardinality({c}) > 0
--- mood[]
ARRAY['low', 'high']::mood[]
--- int4range
int4range(({i}), ({i}) + 2)
NOT isempty({c})
--- mood
(enum_range(NULL::mood))[1 + ({i}) % 3]
--- pair
ROW({i}, 'x')::pair
--- money
({i})::numeric::money
--- bit(8)
(({i}) % 256)::bit(8)
--- time
make_time(({i}) % 24, 0, 0)
