-- Names that hold what some take for the end of a line; read by test_ddl.py.

--- names
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE c (id int REFERENCES p);
CREATE INDEX "b\u2028z" ON c (id);
CREATE INDEX "b\u0085z" ON p (id);
CREATE FOREIGN DATA WRAPPER w;
CREATE SERVER "s\u2028123; 1259 1 TABLE public x y" FOREIGN DATA WRAPPER w;
CREATE USER MAPPING FOR CURRENT_USER SERVER "s\u2028123; 1259 1 TABLE public x y"
  OPTIONS (password 'hush');
CREATE TABLE t (a int, "b
ALTER" int);
ALTER TABLE t ALTER "b
ALTER" SET (n_distinct = 4711)
