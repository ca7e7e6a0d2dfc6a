-- timestamp and timestamptz with precisions, infinities and a default of now().
-- canaries: 1987-06-05 04:03:02.918273
CREATE TABLE visit (id integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), left_at timestamp, rough timestamp(0), ms timestamptz(3), CHECK (left_at IS NULL OR rough <= left_at));
INSERT INTO visit SELECT i, '2024-01-01 10:00+00'::timestamptz + i * interval '37 min', '2024-06-01'::timestamp + i * interval '1 s', '2024-01-01'::timestamp + i * interval '1 h', now() FROM generate_series(1, 180) i;
INSERT INTO visit VALUES (900, 'infinity', '-infinity', '-infinity', NULL), (901, '1987-06-05 04:03:02.918273+00', NULL, NULL, NULL), (902, '4713-01-01 BC', '294276-12-31', NULL, NULL);
