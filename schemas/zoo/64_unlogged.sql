-- Unlogged tables and sequences.
CREATE UNLOGGED TABLE cache (key text PRIMARY KEY, hits integer NOT NULL, id bigserial);
INSERT INTO cache SELECT 'k' || i, i FROM generate_series(1, 150) i;
