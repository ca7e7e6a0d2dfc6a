CREATE TABLE parent (a integer, b integer);
CREATE TABLE child (id integer, a integer, b integer, label text, mail text, n integer);
INSERT INTO parent VALUES (1, 1), (1, 2), (1, 2);
INSERT INTO child VALUES
    (1, 1, 1, 'x', 'm', 5), (1, 1, 2, NULL, 'm', -1), (2, 9, 9, 'x', NULL, NULL),
    (3, NULL, 9, NULL, NULL, 0), (NULL, 1, 1, 'x', 'o', 1);
