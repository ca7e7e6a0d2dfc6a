CREATE TABLE account (id int NOT NULL, kind text NOT NULL, PRIMARY KEY (kind, id))
  PARTITION BY LIST (kind);
CREATE TABLE account_a PARTITION OF account FOR VALUES IN ('a');
CREATE TABLE account_b PARTITION OF account FOR VALUES IN ('b');
ALTER TABLE account_b ADD UNIQUE (id);
