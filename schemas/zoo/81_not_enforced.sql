-- Constraints that are not enforced or not validated, with rows that break them.
-- needs: 18
CREATE TABLE p (id integer PRIMARY KEY);
INSERT INTO p SELECT generate_series(1, 120);
CREATE TABLE c (id integer PRIMARY KEY, p integer REFERENCES p NOT ENFORCED, n integer CHECK (n > 0) NOT ENFORCED, m integer);
INSERT INTO c SELECT i, i * 2, -i, i FROM generate_series(1, 120) i;
ALTER TABLE c ADD CONSTRAINT m_set NOT NULL m NOT VALID;
