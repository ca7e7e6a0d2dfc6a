-- real and double precision with NaN and infinities.
-- canaries: 918273645.25 | 6.02214076e-19
CREATE TABLE sample (id integer PRIMARY KEY, r real NOT NULL, d double precision);
INSERT INTO sample SELECT i, i / 3.0, sqrt(i) FROM generate_series(1, 150) i;
INSERT INTO sample VALUES (500, 'NaN', 'NaN'), (501, 'Infinity', '-Infinity'), (502, 0, 918273645.25), (503, -0.0, 6.02214076e-19), (504, 1, NULL);
