-- Partitions of partitions, of several kinds, in several schemas, by an expression.
-- canaries: quokkanary
CREATE SCHEMA parts;
CREATE TABLE metric (id integer NOT NULL, at date NOT NULL, kind text NOT NULL, name text) PARTITION BY RANGE (at);
CREATE TABLE parts.metric_23 PARTITION OF metric FOR VALUES FROM ('2023-01-01') TO ('2024-01-01') PARTITION BY LIST (kind);
CREATE TABLE parts.metric_23_a PARTITION OF parts.metric_23 FOR VALUES IN ('a', 'b');
CREATE TABLE parts.metric_23_rest PARTITION OF parts.metric_23 DEFAULT PARTITION BY HASH (id);
CREATE TABLE parts.metric_23_rest_0 PARTITION OF parts.metric_23_rest FOR VALUES WITH (MODULUS 1, REMAINDER 0);
CREATE TABLE parts.metric_24 PARTITION OF metric FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
INSERT INTO metric SELECT i, '2023-01-01'::date + i, chr(97 + i % 4), CASE WHEN i % 150 = 1 THEN 'quokkanary ' ELSE 'reading ' END || i FROM generate_series(1, 400) i;
CREATE TABLE name_part (id integer, name text NOT NULL) PARTITION BY LIST (lower(left(name, 1)));
CREATE TABLE name_q PARTITION OF name_part FOR VALUES IN ('q');
CREATE TABLE name_other PARTITION OF name_part DEFAULT;
INSERT INTO name_part SELECT i, CASE WHEN i % 2 = 0 THEN 'Quarterly ' ELSE 'other ' || CASE WHEN i % 75 = 1 THEN 'quokkanary ' ELSE '' END END || i FROM generate_series(1, 160) i;
CREATE TABLE childless (id integer, at date) PARTITION BY RANGE (at);
