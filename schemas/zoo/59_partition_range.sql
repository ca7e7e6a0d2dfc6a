-- Partitions by range, with gaps, an open end, and over two columns.
CREATE TABLE log (id bigserial, at timestamptz NOT NULL, level integer NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE log_old PARTITION OF log FOR VALUES FROM (MINVALUE) TO ('2023-01-01');
CREATE TABLE log_23 PARTITION OF log FOR VALUES FROM ('2023-01-01') TO ('2023-07-01');
CREATE TABLE log_24 PARTITION OF log FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
INSERT INTO log (at, level) SELECT '2024-01-01'::timestamptz + i * interval '1 day', i % 4 FROM generate_series(1, 200) i;
INSERT INTO log (at, level) SELECT '2022-01-01'::timestamptz + i * interval '1 day', i % 4 FROM generate_series(1, 100) i;
CREATE INDEX ON log (level);
CREATE TABLE cell (x integer NOT NULL, y integer NOT NULL, v integer) PARTITION BY RANGE (x, y);
CREATE TABLE cell_1 PARTITION OF cell FOR VALUES FROM (0, 0) TO (10, 0);
CREATE TABLE cell_2 PARTITION OF cell FOR VALUES FROM (10, 0) TO (20, MAXVALUE);
INSERT INTO cell SELECT i % 20, i, i FROM generate_series(1, 200) i;
