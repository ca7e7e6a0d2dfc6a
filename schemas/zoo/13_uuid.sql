-- uuid keys with a default, referred to.
-- canaries: deadbeef-1234-4abc
CREATE TABLE session (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), device uuid NOT NULL, parent uuid REFERENCES session);
INSERT INTO session SELECT ('deadbeef-1234-4abc-8000-' || lpad(i::text, 12, '0'))::uuid, gen_random_uuid(), CASE WHEN i > 20 THEN ('deadbeef-1234-4abc-8000-' || lpad((i / 3)::text, 12, '0'))::uuid END FROM generate_series(1, 150) i;
CREATE TABLE hit (session uuid NOT NULL REFERENCES session ON DELETE CASCADE, no integer, tag uuid UNIQUE, PRIMARY KEY (session, no));
INSERT INTO hit SELECT id, n, gen_random_uuid() FROM session, generate_series(1, 2) n;
