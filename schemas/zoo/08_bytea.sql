-- bytea: empty, small, one large, and one that is unique.
-- canaries: deadbeefc0ffee
CREATE TABLE file (id integer PRIMARY KEY, digest bytea NOT NULL UNIQUE, content bytea);
INSERT INTO file SELECT i, sha256(i::text::bytea), decode('deadbeefc0ffee' || lpad(to_hex(i), 4, '0'), 'hex') FROM generate_series(1, 150) i;
INSERT INTO file VALUES (900, '', NULL), (901, '\x00', decode(repeat('deadbeefc0ffee', 2000), 'hex'));
