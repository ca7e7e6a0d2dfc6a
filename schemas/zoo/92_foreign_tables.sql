-- Foreign tables and servers: they stay behind.
-- extension: postgres_fdw
-- canaries: quokkanary
CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'quokkanary.example');
CREATE FOREIGN TABLE distant (id integer) SERVER far OPTIONS (table_name 'quokkanary');
CREATE TABLE near (id integer PRIMARY KEY, n integer);
INSERT INTO near SELECT i, i FROM generate_series(1, 120) i;
