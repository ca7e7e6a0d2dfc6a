-- Keys without constraints, and rows that break what one would say of them; read by
-- test_pipeline_references.py.
CREATE TABLE person (id bigint PRIMARY KEY, plan text NOT NULL);
CREATE TABLE product (id integer PRIMARY KEY, code varchar(9) NOT NULL UNIQUE, price integer);
CREATE TABLE "order" (id integer PRIMARY KEY, person integer NOT NULL, state text NOT NULL);
CREATE TABLE line (
  id integer PRIMARY KEY, "order" integer NOT NULL, product text NOT NULL, gift bigint, amount integer,
  about_type text, about_id bigint);
-- What belongs to people, and to their orders and lines.
CREATE TABLE note (id integer PRIMARY KEY, of_type text, of_id bigint, mark integer NOT NULL);
-- Arrays of keys.
ALTER TABLE line ADD gifts integer[];
ALTER TABLE "order" ADD keys bigint[];
ALTER TABLE person ADD friends bigint[] NOT NULL DEFAULT '{}';
ALTER TABLE product ADD alike text[];
INSERT INTO person SELECT g, 'plan ' || g % 3 FROM generate_series(1, 60) g;
INSERT INTO product SELECT g, 'p' || g, g % 5 FROM generate_series(0, 20) g;
INSERT INTO "order" SELECT g, g % 50 + 1, 'state ' || g % 2 FROM generate_series(1, 100) g;
INSERT INTO line SELECT g, g % 90 + 1, CASE g % 4 WHEN 0 THEN '' ELSE 'p' || g % 20 END,
  CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN 0 ELSE g % 20 END, g % 7
FROM generate_series(1, 200) g;
UPDATE line SET about_type = (ARRAY['Person', 'Product', 'Other'])[1 + id % 3], about_id = 1 + id % 19
WHERE id % 4 > 0;
UPDATE line SET gifts = CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN '{}'
  ELSE ARRAY[1 + id % 20, 1 + (id * 7 + 5) % 20, 1 + (id * 3 + 9) % 20] END;
UPDATE person SET friends = ARRAY[1 + id % 60, 1 + (id * 11) % 60];
UPDATE product SET alike = ARRAY['p' || (id + 3) % 20];
INSERT INTO note SELECT g, (ARRAY['Line', 'Order', 'Person'])[1 + g % 3], 1 + g % 60, g % 4
FROM generate_series(1, 240) g;
-- Owners and targets that are not there.
INSERT INTO note SELECT 300 + g, (ARRAY['Order', 'Line', 'Line', 'Other', NULL])[1 + g % 5],
  (ARRAY[200, 300, 9000, 3, 3])[1 + g % 5] + g % 7, 5 FROM generate_series(1, 60) g;
INSERT INTO "order" SELECT 200 + g, 7000 + g % 9, 'lost' FROM generate_series(1, 40) g;
INSERT INTO line SELECT 300 + g, 201 + g % 3, 'p1', 5, 1 FROM generate_series(1, 30) g;
INSERT INTO line SELECT 400 + g, 9000, 'no such', 8000, 1, 'Person', 7000 FROM generate_series(1, 20) g;
UPDATE line SET gifts = '{5,NULL,8000,5}' WHERE id % 5 = 0;
UPDATE product SET alike = '{NULL,"","p,~c:",p1,p5,p5}' WHERE id % 3 = 0;
-- One person of many.
UPDATE person SET friends = ARRAY(SELECT 3 + g % 60 FROM generate_series(1, 3000) g) WHERE id = 7;
INSERT INTO "order" SELECT 1000 + g, 7, 'mine' FROM generate_series(1, 400) g;
-- Several rows of one key.
SET session_replication_role = replica;
SET allow_system_table_mods = on;
UPDATE pg_index SET indisunique = false
WHERE indexrelid IN ('person_pkey'::regclass, 'product_code_key'::regclass, 'order_pkey'::regclass);
INSERT INTO person VALUES (3, 'again'), (3, 'again'), (60, 'again');
INSERT INTO product VALUES (30, 'p1', 3), (31, 'p1', 3);
INSERT INTO "order" VALUES (5, 8, 'again'), (201, 9, 'again');
UPDATE pg_index SET indisunique = true
WHERE indexrelid IN ('person_pkey'::regclass, 'product_code_key'::regclass, 'order_pkey'::regclass);
