CREATE TABLE rows (id int PRIMARY KEY, title text);
CREATE TABLE heads (id int PRIMARY KEY, "a
\.
b" text);
CREATE TABLE whole (id int PRIMARY KEY, title text);
INSERT INTO rows VALUES (1, E'a\n\\.\nb');
INSERT INTO whole VALUES (1, 'a.b')
