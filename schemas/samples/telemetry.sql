-- Telemetry: days as partitions of months, BRIN, generated columns, sub-partitions, special floats.
-- canaries: quokkanary
CREATE TABLE sites (site_id smallint PRIMARY KEY, code "char" NOT NULL, label varchar(40) NOT NULL, location point, area polygon, timezone text NOT NULL DEFAULT 'UTC');
CREATE TABLE devices (device_id uuid PRIMARY KEY, site_id smallint NOT NULL REFERENCES sites, serial_no text NOT NULL UNIQUE CHECK (serial_no ~ '^SN-[0-9A-F]{8}$'), mac macaddr UNIQUE, mac8 macaddr8, address inet, firmware integer[] NOT NULL, installed date NOT NULL, retired date, flags bit(8) NOT NULL DEFAULT B'00000000', CHECK (retired IS NULL OR retired > installed));
CREATE TABLE readings (device_id uuid NOT NULL REFERENCES devices, at timestamptz NOT NULL, metric text NOT NULL, value double precision, quality smallint NOT NULL DEFAULT 0, scaled double precision GENERATED ALWAYS AS (value / 10) STORED) PARTITION BY RANGE (at);
CREATE TABLE readings_2024_01 PARTITION OF readings FOR VALUES FROM ('2024-01-01 00:00+00') TO ('2024-02-01 00:00+00') PARTITION BY LIST (metric);
CREATE TABLE readings_2024_01_temp PARTITION OF readings_2024_01 FOR VALUES IN ('temperature');
CREATE TABLE readings_2024_01_rest PARTITION OF readings_2024_01 DEFAULT;
CREATE TABLE readings_2024_02 PARTITION OF readings FOR VALUES FROM ('2024-02-01 00:00+00') TO ('2024-03-01 00:00+00');
CREATE TABLE readings_later PARTITION OF readings DEFAULT;
CREATE INDEX readings_at ON readings USING brin (at);
CREATE INDEX readings_device ON readings (device_id, at DESC) INCLUDE (value);
CREATE TABLE hourly (device_id uuid NOT NULL, hour timestamptz NOT NULL CHECK (hour = date_trunc('hour', hour, 'UTC')), lowest real, highest real, mean real, n integer NOT NULL CHECK (n > 0), PRIMARY KEY (device_id, hour), CHECK (lowest <= mean AND mean <= highest));
CREATE TABLE alarms (id bigserial PRIMARY KEY, device_id uuid REFERENCES devices ON DELETE SET NULL, active tstzrange NOT NULL, level smallint NOT NULL CHECK (level IN (1, 2, 3)), ack boolean, took interval, EXCLUDE USING gist (active WITH &&) WHERE (level = 3));
INSERT INTO sites SELECT i, chr(64 + i)::"char", 'Quokkanary ' || i, CASE WHEN i % 3 > 0 THEN point(i, -i) END, polygon(box(point(0, 0), point(i, i))), 'UTC' FROM generate_series(1, 12) i;
INSERT INTO devices SELECT md5('d' || i)::uuid, 1 + i % 12, 'SN-' || upper(lpad(to_hex(i * 104729), 8, '0')), ('08:00:2b:00:' || lpad(to_hex(i / 256), 2, '0') || ':' || lpad(to_hex(i % 256), 2, '0'))::macaddr, NULL, ('10.1.' || i / 250 || '.' || i % 250)::inet, ARRAY[1, i % 4, i % 9], '2022-01-01'::date + i, CASE WHEN i % 9 = 0 THEN '2022-06-01'::date + 2 * i END, (i % 256)::bit(8) FROM generate_series(1, 500) i;
INSERT INTO readings (device_id, at, metric, value, quality) SELECT md5('d' || 1 + i % 500)::uuid, '2024-01-02 00:00+00'::timestamptz + i * interval '8 min', (ARRAY['temperature', 'humidity', 'pressure'])[1 + i % 3], CASE WHEN i % 97 = 0 THEN 'NaN'::float8 WHEN i % 11 > 0 THEN 20 + sin(i / 50.0) * 10 END, (i % 50 = 0)::int FROM generate_series(1, 12000) i;
INSERT INTO hourly SELECT md5('d' || i % 500)::uuid, '2024-01-02 00:00+00'::timestamptz + i * interval '1 h', 10 + i % 5, 20 + i % 5, 15 + i % 5, 1 + i % 60 FROM generate_series(1, 1500) i;
INSERT INTO alarms (device_id, active, level, ack, took) SELECT CASE WHEN i % 10 > 0 THEN md5('d' || i)::uuid END, tstzrange('2024-01-02'::timestamptz + i * interval '3 h', CASE WHEN i % 30 > 0 THEN '2024-01-02'::timestamptz + i * interval '3 h' + interval '1 h' ELSE '2024-01-02'::timestamptz + i * interval '3 h' + interval '2 h' END), 1 + i % 3, CASE WHEN i % 4 > 0 THEN i % 2 = 0 END, i * interval '37 s' FROM generate_series(1, 400) i;
