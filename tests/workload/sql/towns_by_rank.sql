CREATE TABLE towns (id integer PRIMARY KEY, name varchar(20), "Odd Name" text, kind char(4));
INSERT INTO towns SELECT i, (ARRAY[{names}])[1 + (i > 50)::int + (i > 80)::int + (i > 95)::int],
    CASE WHEN i % 2 = 0 THEN '{odd}' END, (ARRAY['here', '{kind}'])[1 + i % 2]
FROM generate_series(1, 100) i;
ANALYZE towns;
