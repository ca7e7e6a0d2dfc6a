-- Owners with equal or almost equal keys, and what 500 items that refer to them do when one goes;
-- read by test_pipeline_stability.py. The title names the owner that goes, and the items that refer
-- to it by the constraint's own equality.

--- 'ann': name::text = 'ann'
CREATE EXTENSION citext SCHEMA public;
CREATE TABLE owner (name text PRIMARY KEY, plan integer NOT NULL);
CREATE TABLE item (name public.citext REFERENCES owner (name), size integer NOT NULL);
INSERT INTO owner VALUES ('ann', 1), ('ANN', 2), ('bob', 1);
INSERT INTO item SELECT 'ANN', i % 3 FROM generate_series(1, 500) i;
INSERT INTO item VALUES ('bob', 1), (NULL, 2);
--- 'ann': name = 'ann' COLLATE folded
CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE owner (name text COLLATE folded, plan integer NOT NULL);
CREATE UNIQUE INDEX ON owner (name COLLATE "C");
CREATE TABLE item (name text COLLATE folded REFERENCES owner (name), size integer NOT NULL);
INSERT INTO owner VALUES ('ann', 1), ('ANN', 2), ('bob', 1);
INSERT INTO item SELECT 'ANN', i % 3 FROM generate_series(1, 500) i;
INSERT INTO item VALUES ('bob', 1), (NULL, 2);
--- 'ANN': name = 'ANN' COLLATE folded
CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE owner (name text COLLATE folded, plan integer NOT NULL);
CREATE UNIQUE INDEX ON owner (name COLLATE "C");
CREATE TABLE item (name text COLLATE folded REFERENCES owner (name), size integer NOT NULL);
INSERT INTO owner VALUES ('ann', 1), ('ANN', 2), ('bob', 1);
INSERT INTO item SELECT 'ANN', i % 3 FROM generate_series(1, 500) i;
INSERT INTO item VALUES ('bob', 1), (NULL, 2);
