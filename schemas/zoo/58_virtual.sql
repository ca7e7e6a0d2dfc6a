-- Virtual generated columns.
-- needs: 18
-- canaries: quokkanary
CREATE TABLE area (id integer PRIMARY KEY, w integer NOT NULL, h integer, size integer GENERATED ALWAYS AS (w * h) VIRTUAL, name text, big text GENERATED ALWAYS AS (upper(name)), CHECK (size < 100000));
INSERT INTO area (id, w, h, name) SELECT i, i, i % 12, 'quokkanary ' || i FROM generate_series(1, 160) i;
