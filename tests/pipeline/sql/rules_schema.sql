CREATE TYPE tier AS ENUM ('low', 'high', 'top');
CREATE TABLE client (
  id int PRIMARY KEY, code text NOT NULL UNIQUE, "VIP" boolean NOT NULL, tier tier NOT NULL);
CREATE TABLE sale (
  id int PRIMARY KEY, client_id int NOT NULL REFERENCES client, ordered date NOT NULL, shipped date,
  status text NOT NULL, net int NOT NULL, tax int NOT NULL, gross int NOT NULL, rate float8,
  seen timestamptz NOT NULL, zip text NOT NULL, note text, tags int[], facts jsonb,
  one int, other int, privbench_rule_2 int CHECK (privbench_rule_2 > 0));
CREATE TABLE event (id int, at date NOT NULL, size int NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE event_old PARTITION OF event FOR VALUES FROM ('2000-01-01') TO ('2020-01-01');
CREATE TABLE visit (length int NOT NULL);
CREATE TABLE long_visit (reason text NOT NULL) INHERITS (visit);
CREATE TABLE event_new PARTITION OF event FOR VALUES FROM ('2020-01-01') TO ('2040-01-01');
