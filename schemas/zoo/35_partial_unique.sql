-- Partial UNIQUE indexes: at most one active row an owner.
-- canaries: quokkanary
CREATE TABLE owner (id integer PRIMARY KEY, name text NOT NULL);
INSERT INTO owner SELECT i, 'quokkanary ' || i FROM generate_series(1, 120) i;
CREATE TABLE card (id integer PRIMARY KEY, owner integer NOT NULL REFERENCES owner, active boolean NOT NULL, gone timestamptz, no integer NOT NULL, state text NOT NULL);
CREATE UNIQUE INDEX one_active ON card (owner) WHERE active;
CREATE UNIQUE INDEX no_alive ON card (no) WHERE gone IS NULL;
CREATE UNIQUE INDEX open_state ON card (owner, state) WHERE state IN ('open', 'held');
INSERT INTO card SELECT i, 1 + i % 120, i <= 120, CASE WHEN i % 2 = 0 THEN now() END, i, CASE WHEN i < 120 THEN 'open' ELSE 'shut' END FROM generate_series(1, 240) i;
