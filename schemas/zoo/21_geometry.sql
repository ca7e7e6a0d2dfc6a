-- Every geometric type, with a GiST index.
-- canaries: 918273.645
CREATE TABLE place (id integer PRIMARY KEY, at point NOT NULL, l line, s lseg, b box, p path, open path, g polygon, c circle, trail point[]);
CREATE INDEX ON place USING gist (at);
INSERT INTO place SELECT i, point(i, 918273.645), '{1,2,3}', '[(0,0),(1,1)]', box(point(0, 0), point(i, i)), '((0,0),(1,1))', '[(0,0),(1,1)]', '((0,0),(1,0),(1,1))', circle(point(0, 0), 918273.645), ARRAY[point(1, 2)] FROM generate_series(1, 150) i;
INSERT INTO place (id, at) VALUES (900, '(NaN,Infinity)');
