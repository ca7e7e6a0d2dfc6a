-- oid and every reg* type that keeps its meaning in another database.
-- canaries: 3141592653
CREATE TABLE meta (id integer PRIMARY KEY, o oid NOT NULL, rel regclass NOT NULL, typ regtype NOT NULL, role regrole, space regnamespace, fn regproc, fns regprocedure, op regoper, ops regoperator, cfg regconfig, dict regdictionary, coll regcollation, oids oid[], vec oidvector, ints int2vector);
INSERT INTO meta SELECT i, 3141592653::oid, 'pg_class', 'integer', NULL, 'pg_catalog', 'now', 'now()', '||/', '+(integer,integer)', 'simple', 'simple', '"C"', ARRAY[1, 2]::oid[], '1 2', '1 2' FROM generate_series(1, 150) i;
