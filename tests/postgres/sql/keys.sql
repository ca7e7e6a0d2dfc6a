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
