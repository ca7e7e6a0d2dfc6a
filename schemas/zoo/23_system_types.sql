-- Types of the system's own: transaction ids, snapshots, log positions, tuple ids.
-- canaries: 918273645
CREATE TABLE trace (id integer PRIMARY KEY, lsn pg_lsn NOT NULL, x xid NOT NULL, x8 xid8 NOT NULL, c cid NOT NULL, t tid NOT NULL, snap pg_snapshot NOT NULL, old txid_snapshot, lsns pg_lsn[]);
INSERT INTO trace SELECT i, ('0/' || upper(to_hex(i)))::pg_lsn, i::text::xid, '918273645', i::text::cid, '(1,2)', '10:918273645:', NULL, ARRAY['0/1'::pg_lsn] FROM generate_series(1, 150) i;
