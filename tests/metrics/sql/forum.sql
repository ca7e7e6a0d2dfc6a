CREATE TABLE parents (id integer PRIMARY KEY);
CREATE TABLE children (id integer PRIMARY KEY, parent integer REFERENCES parents);
INSERT INTO parents SELECT generate_series(1, 10);
INSERT INTO children SELECT row_number() OVER (), p FROM
    (VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 8), (7, 9)) AS n (p, count),
    generate_series(1, count);
INSERT INTO children VALUES (1000, NULL);
