CREATE TABLE docs (
    id integer PRIMARY KEY, data jsonb NOT NULL, tags text[], title varchar(40), mark uuid,
    flags bit(4), odd "char", "User Name" text
);
INSERT INTO docs
SELECT i, jsonb_build_object('name', 'n' || i, 'size', i % 7, 'in', '{"a": "b"}'::jsonb),
    ARRAY['t' || i % 5, 'u' || i % 3], 'Title ' || i, md5(i::text)::uuid, (i % 16)::bit(4), 'c',
    'user ' || i % 4
FROM generate_series(1, 200) i;
ANALYZE docs;
CREATE SCHEMA other;
CREATE TABLE other.orders (words text, "Q" text);
INSERT INTO other.orders VALUES ('a', 'b');
