-- Exclusions of partitions, of one list value and of the rest; read by test_postgres_introspect.py.
CREATE TABLE stay (hall text, a date, b date, paid bool) PARTITION BY LIST (hall);
CREATE TABLE north PARTITION OF stay FOR VALUES IN ('n') PARTITION BY RANGE (a);
CREATE TABLE low PARTITION OF north FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
CREATE TABLE south PARTITION OF stay FOR VALUES IN ('s');
CREATE TABLE other PARTITION OF stay DEFAULT;
ALTER TABLE low ADD EXCLUDE USING gist (daterange(a, b) WITH &&) WHERE (paid);
ALTER TABLE south ADD EXCLUDE USING gist (daterange(a, b) WITH &&) WHERE (paid);
ALTER TABLE other ADD EXCLUDE USING gist (daterange(a, b) WITH &&);
