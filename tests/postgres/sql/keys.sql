-- Pairs of keys that PostgreSQL holds equal or not, by what they are; read by
-- test_postgres_keys.py.

--- numbers
CREATE TABLE parent (k numeric UNIQUE);
CREATE TABLE child (k integer, n serial);
INSERT INTO parent VALUES (1.00), (2.5), (3);
INSERT INTO child (k) VALUES (1), (3), (4), (NULL);
--- decimals
CREATE TABLE parent (k numeric(9,2) UNIQUE);
CREATE TABLE child (k numeric, n serial);
INSERT INTO parent VALUES (1.50), (2);
INSERT INTO child (k) VALUES (1.5), (2.000), (1.51);
--- padding
CREATE TABLE parent (k char(4) UNIQUE);
CREATE TABLE child (k varchar(9), n serial);
INSERT INTO parent VALUES ('ab'), ('c');
INSERT INTO child (k) VALUES ('ab'), ('c'), ('d');
--- widths
CREATE TABLE parent (k bigint UNIQUE);
CREATE TABLE child (k smallint, n serial);
INSERT INTO parent VALUES (1), (32767);
INSERT INTO child (k) VALUES (32767), (2);
--- moments
CREATE TABLE parent (k timestamptz UNIQUE);
CREATE TABLE child (k timestamptz, n serial);
INSERT INTO parent VALUES ('2020-01-01 00:00+00');
INSERT INTO child (k) VALUES ('2020-01-01 02:00+02');
--- mixed
CREATE TABLE parent (k timestamp UNIQUE);
CREATE TABLE child (k date, n serial);
INSERT INTO parent VALUES ('2020-01-01'), ('2020-01-02 01:00');
INSERT INTO child (k) VALUES ('2020-01-01');
--- spans
CREATE TABLE parent (k interval UNIQUE);
CREATE TABLE child (k interval, n serial);
INSERT INTO parent VALUES ('1 day'), ('1 mon');
INSERT INTO child (k) VALUES ('24 hours'), ('30 days');
--- long spans
CREATE TABLE parent (k interval UNIQUE);
CREATE TABLE child (k interval, n serial);
INSERT INTO parent VALUES ('1 year'), ('365 days 6 hours');
INSERT INTO child (k) VALUES ('365 days 6 hours'), ('360 days'), ('12 mons');
--- ids
CREATE TABLE parent (k uuid UNIQUE);
CREATE TABLE child (k uuid, n serial);
INSERT INTO parent VALUES ('6f9619ff-8b86-d011-b42d-00cf4fc964ff');
INSERT INTO child (k) VALUES ('6F9619FF-8B86-D011-B42D-00CF4FC964FF');
--- addresses
CREATE TABLE parent (k inet UNIQUE);
CREATE TABLE child (k inet, n serial);
INSERT INTO parent VALUES ('10.0.0.1');
INSERT INTO child (k) VALUES ('10.0.0.1/32'), ('10.0.0.1/8');
--- floats
CREATE TABLE parent (k double precision UNIQUE);
CREATE TABLE child (k real, n serial);
INSERT INTO parent VALUES (0), ('NaN'), (0.5);
INSERT INTO child (k) VALUES ('-0'), ('NaN'), (0.5), (7);
--- folded
CREATE TABLE parent (k text COLLATE public."any Case" UNIQUE);
CREATE TABLE child (k text, n serial);
INSERT INTO parent VALUES ('Ada'), ('Bob');
INSERT INTO child (k) VALUES ('ADA'), ('eve');
--- moods
CREATE TABLE parent (k public.mood UNIQUE);
CREATE TABLE child (k public.mood, n serial);
INSERT INTO parent VALUES ('sad'), ('glad');
INSERT INTO child (k) VALUES ('glad');
--- letters of a child that ignores case
CREATE EXTENSION citext SCHEMA public;
CREATE TABLE parent (k text UNIQUE);
CREATE TABLE child (k public.citext, n serial);
INSERT INTO parent VALUES ('ann'), ('ANN');
INSERT INTO child (k) VALUES ('ANN'), ('ann'), ('Ann');
--- letters that are ignored
CREATE EXTENSION citext SCHEMA public;
CREATE DOMAIN public.label AS public.citext;
CREATE TABLE parent (k public.citext UNIQUE);
CREATE TABLE child (k public.label, n serial);
INSERT INTO parent VALUES ('Ann'), ('Él');
INSERT INTO child (k) VALUES ('ANN'), ('éL'), ('bob');
--- decimals into floats
CREATE TABLE parent (k double precision UNIQUE);
CREATE TABLE child (k numeric, n serial);
INSERT INTO parent VALUES (0.1), (0), ('NaN'), (1e300), (5e-324);
INSERT INTO child (k) VALUES (0.1), (0.10000000000000000001), (0.00), ('NaN'), (1e300), (1e400), (1e-400), (5e-324);
--- integers into single precision
CREATE TABLE parent (k real UNIQUE);
CREATE TABLE child (k integer, n serial);
INSERT INTO parent VALUES (16777216), (3);
INSERT INTO child (k) VALUES (16777217), (16777216), (3), (4);
--- decimals into single precision
CREATE TABLE parent (k real UNIQUE);
CREATE TABLE child (k numeric, n serial);
INSERT INTO parent VALUES (0.1), ('NaN');
INSERT INTO child (k) VALUES (0.1), (0.100000001), (1e39), (1e-50);
--- single and double precision
CREATE TABLE parent (k real UNIQUE);
CREATE TABLE child (k double precision, n serial);
INSERT INTO parent VALUES (0.1), (0.5), ('-0');
INSERT INTO child (k) VALUES (0.1), (0.5), (0), (1e300);
--- days far away
CREATE TABLE parent (k timestamp UNIQUE);
CREATE TABLE child (k date, n serial);
INSERT INTO parent VALUES ('infinity'), ('-infinity'), ('4714-11-24 BC');
INSERT INTO child (k) VALUES ('infinity'), ('-infinity'), ('4714-11-24 BC'), ('300000-01-01');
--- days into moments
CREATE TABLE parent (k timestamptz UNIQUE);
CREATE TABLE child (k date, n serial);
INSERT INTO parent VALUES ('2020-01-01 00:00+00'), ('2020-01-01 01:00+00');
INSERT INTO child (k) VALUES ('2020-01-01'), ('2020-01-02'), ('300000-01-01');
--- numbers of objects
CREATE TABLE parent (k oid UNIQUE);
CREATE TABLE child (k bigint, n serial);
INSERT INTO parent VALUES (4294967295), (7);
INSERT INTO child (k) VALUES (4294967295), (7), (-1), (1099511627776);
--- signed numbers of objects
CREATE TABLE parent (k oid UNIQUE);
CREATE TABLE child (k integer, n serial);
INSERT INTO parent VALUES (4294967295), (7);
INSERT INTO child (k) VALUES (-1), (7);
--- long addresses of cards
CREATE TABLE parent (k macaddr UNIQUE);
CREATE TABLE child (k macaddr8, n serial);
INSERT INTO parent VALUES ('08:00:2b:01:02:03');
INSERT INTO child (k) VALUES ('08:00:2b:ff:fe:01:02:03'), ('08:00:2b:00:00:01:02:03');
--- networks
CREATE TABLE parent (k inet UNIQUE);
CREATE TABLE child (k cidr, n serial);
INSERT INTO parent VALUES ('10.0.0.1'), ('10.0.0.0/8');
INSERT INTO child (k) VALUES ('10.0.0.1/32'), ('10.0.0.0/8'), ('10.0.0.0/9');
--- padded child
CREATE TABLE parent (k text UNIQUE);
CREATE TABLE child (k char(4), n serial);
INSERT INTO parent VALUES ('ab'), ('ab  '), ('c ');
INSERT INTO child (k) VALUES ('ab'), ('c');
--- names
CREATE TABLE parent (k name UNIQUE);
CREATE TABLE child (k text, n serial);
INSERT INTO parent VALUES ('ab'), ('c ');
INSERT INTO child (k) VALUES ('ab'), ('c'), ('c ');
--- lists of decimals
CREATE TABLE parent (k numeric[] UNIQUE);
CREATE TABLE child (k numeric[], n serial);
INSERT INTO parent VALUES ('{1.0,2}'), ('{}'), ('[0:1]={1,2}');
INSERT INTO child (k) VALUES ('{1,2.00}'), ('{}'), ('{1,3}'), ('[0:1]={1,2.0}'), (NULL);
--- ranges of decimals
CREATE TABLE parent (k numrange UNIQUE);
CREATE TABLE child (k numrange, n serial);
INSERT INTO parent VALUES ('[1.0,2)'), ('empty');
INSERT INTO child (k) VALUES ('[1,2.00)'), ('(3,3)'), ('[1,2]');
--- documents
CREATE TABLE parent (k jsonb UNIQUE);
CREATE TABLE child (k jsonb, n serial);
INSERT INTO parent VALUES ('{"a": 1.0}'), ('[]');
INSERT INTO child (k) VALUES ('{"a": 1.00}'), ('[ ]'), ('{}');
--- bits
CREATE TABLE parent (k varbit UNIQUE);
CREATE TABLE child (k bit(3), n serial);
INSERT INTO parent VALUES ('101'), ('1010');
INSERT INTO child (k) VALUES ('101'), ('111');
--- rows within rows
CREATE TYPE public.pair AS (a numeric, b text);
CREATE TABLE parent (k public.pair UNIQUE);
CREATE TABLE child (k public.pair, n serial);
INSERT INTO parent VALUES ('(1.0,x)'), ('(1.0,y)');
INSERT INTO child (k) VALUES ('(1,x)'), ('(1.00,y)'), ('(1,)');
--- numbers of books
CREATE EXTENSION isn SCHEMA public;
CREATE TABLE parent (k public.isbn13 UNIQUE);
CREATE TABLE child (k public.isbn, n serial);
INSERT INTO parent VALUES ('978-0-393-04002-9');
INSERT INTO child (k) VALUES ('0-393-04002-X'), ('0-901690-54-6');
--- zones
CREATE TABLE parent (k timetz UNIQUE);
CREATE TABLE child (k timetz, n serial);
INSERT INTO parent VALUES ('10:00+02'), ('09:00+01');
INSERT INTO child (k) VALUES ('10:00+02'), ('08:00+00');
--- times of day into spans
CREATE TABLE parent (k interval UNIQUE);
CREATE TABLE child (k time, n serial);
INSERT INTO parent VALUES ('01:00'), ('1 day');
INSERT INTO child (k) VALUES ('01:00'), ('02:00');
--- one list among several columns
CREATE TABLE parent (tenant integer, k numeric[], UNIQUE (tenant, k));
CREATE TABLE child (tenant bigint, k numeric[], n serial);
INSERT INTO parent VALUES (1, '{1.0}'), (2, '{1}'), (NULL, '{1}');
INSERT INTO child (tenant, k) VALUES (1, '{1}'), (2, '{1.00}'), (3, '{1}'), (NULL, '{1}'), (1, NULL);
--- lists in partitions
CREATE TABLE parent (k numeric[] UNIQUE);
CREATE TABLE child (k numeric[], n serial) PARTITION BY RANGE (n);
CREATE TABLE child_low PARTITION OF child FOR VALUES FROM (0) TO (2);
CREATE TABLE child_high PARTITION OF child FOR VALUES FROM (2) TO (9);
INSERT INTO parent VALUES ('{1.0}'), ('{2}');
INSERT INTO child (k) VALUES ('{1}'), ('{2.0}'), ('{1.00}');
--- folded by a domain
CREATE DOMAIN public.address AS text COLLATE public."any Case";
CREATE TABLE parent (k public.address UNIQUE);
CREATE TABLE child (k text, n serial);
INSERT INTO parent VALUES ('Ada');
INSERT INTO child (k) VALUES ('ADA'), ('eve');
--- folded child alone
CREATE TABLE parent (k text UNIQUE);
CREATE TABLE child (k text COLLATE public."any Case", n serial);
INSERT INTO parent VALUES ('Ada'), ('ADA');
INSERT INTO child (k) VALUES ('ADA'), ('ada');
--- equal parents under a finer index
CREATE TABLE parent (k text COLLATE public."any Case");
CREATE UNIQUE INDEX ON parent (k COLLATE "C");
CREATE TABLE child (k text COLLATE public."any Case", n serial);
INSERT INTO parent VALUES ('ann'), ('Bob'), ('ANN');
INSERT INTO child (k) VALUES ('ANN'), ('ann'), ('bob'), ('eve');
--- lists of folded texts
CREATE TABLE parent (k text[] COLLATE public."any Case" UNIQUE);
CREATE TABLE child (k text[], n serial);
INSERT INTO parent VALUES ('{Ada,Bob}'), ('{Eve}');
INSERT INTO child (k) VALUES ('{ADA,bob}'), ('{eva}'), ('{eve}');
--- lists of equal parents
CREATE TABLE parent (k text[] COLLATE public."any Case");
CREATE UNIQUE INDEX ON parent (k COLLATE "C");
CREATE TABLE child (k text[], n serial);
INSERT INTO parent VALUES ('{Ada}'), ('{ADA}'), ('{Eve}');
INSERT INTO child (k) VALUES ('{ada}'), ('{eve}');
--- lists in a partitioned parent
CREATE TABLE parent (k numeric[] UNIQUE) PARTITION BY HASH (k);
CREATE TABLE parent_0 PARTITION OF parent FOR VALUES WITH (modulus 2, remainder 0);
CREATE TABLE parent_1 PARTITION OF parent FOR VALUES WITH (modulus 2, remainder 1);
CREATE TABLE child (k numeric[], n serial);
INSERT INTO parent VALUES ('{1.0}'), ('{2}'), ('{3}'), ('{4.0}');
INSERT INTO child (k) VALUES ('{1}'), ('{2.0}'), ('{3.00}'), ('{4}'), (NULL);
--- sums of money
CREATE TABLE parent (k money UNIQUE);
CREATE TABLE child (k money, n serial);
INSERT INTO parent VALUES (1), (2.5);
INSERT INTO child (k) VALUES (1), (2.50), (3);
--- maps
CREATE EXTENSION hstore SCHEMA public;
CREATE TABLE parent (k public.hstore UNIQUE);
CREATE TABLE child (k public.hstore, n serial);
INSERT INTO parent VALUES ('a=>1,b=>2'), ('');
INSERT INTO child (k) VALUES ('b=>2,a=>1'), ('a=>1');
--- domains over domains
CREATE DOMAIN public.amount AS numeric CHECK (VALUE > 0);
CREATE DOMAIN public.price AS public.amount CHECK (VALUE < 9);
CREATE TABLE parent (k public.amount UNIQUE);
CREATE TABLE child (k public.price, n serial);
INSERT INTO parent VALUES (1.00), (2.5);
INSERT INTO child (k) VALUES (1), (2.500), (3);
--- truth
CREATE TABLE parent (k boolean UNIQUE);
CREATE TABLE child (k boolean, n serial);
INSERT INTO parent VALUES (true);
INSERT INTO child (k) VALUES (true), (false);
--- letters and bytes
CREATE TABLE parent (k "char" UNIQUE);
CREATE TABLE child (k "char", n serial);
INSERT INTO parent VALUES ('a'), ('');
INSERT INTO child (k) VALUES ('a'), ('b'), ('');
--- brackets of documents
CREATE TABLE parent (k jsonb UNIQUE);
CREATE TABLE child (k jsonb, n serial);
INSERT INTO parent VALUES ('[]'), ('{}'), ('[1,2]'), ('[[1],2]'), ('"a"'), ('["a"]'), ('[10,2]'), ('[1,2.0,0]');
INSERT INTO child (k) VALUES ('{}'), ('[1.0,2.00]'), ('[[1],2]'), ('"a"'), ('["a"]'), ('[[1,2]]'), ('[1,2,0.0]');
--- lists of lists
CREATE TABLE parent (k interval[] UNIQUE);
CREATE TABLE child (k interval[], n serial);
INSERT INTO parent VALUES ('{{1 day,2 days}}'), ('{1 day,2 days}'), ('{{1 day},{2 days}}'), ('{NULL}'), ('{}');
INSERT INTO child (k) VALUES ('{24 hours,48 hours}'), ('{{24 hours},{2 days}}'), ('{{1 day,48 hours}}'), ('{NULL}'), ('{}');
--- labels that become small numbers, but others by a function of users
CREATE TYPE public.code AS ENUM ('1', '2');
CREATE CAST (public.code AS smallint) WITH INOUT AS IMPLICIT;
CREATE FUNCTION public.two(public.code) RETURNS integer LANGUAGE plpgsql AS 'BEGIN RETURN 2; END';
CREATE CAST (public.code AS integer) WITH FUNCTION public.two(public.code);
CREATE TABLE parent (k smallint UNIQUE);
CREATE TABLE child (k public.code, n serial);
INSERT INTO parent VALUES (1), (2);
INSERT INTO child (k) VALUES ('1'), ('2');
