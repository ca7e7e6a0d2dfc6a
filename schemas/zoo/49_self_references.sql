-- Self-references: a tree, NOT NULL with roots that point at themselves, two keys, of several columns.
-- canaries: quokkanary
CREATE TABLE category (id integer PRIMARY KEY, parent integer REFERENCES category ON DELETE CASCADE, name text NOT NULL, UNIQUE (parent, name));
INSERT INTO category SELECT i, nullif(i / 4, 0), 'quokkanary ' || i FROM generate_series(1, 160) i;
CREATE TABLE account (id integer PRIMARY KEY, main integer NOT NULL REFERENCES account, next integer UNIQUE REFERENCES account, CHECK (next <> id));
INSERT INTO account SELECT i, 1 + i / 10, CASE WHEN i < 150 THEN i + 1 END FROM generate_series(1, 150) i;
CREATE TABLE leaf (tenant integer, id integer, parent integer, PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, parent) REFERENCES leaf);
INSERT INTO leaf SELECT i % 5, i, CASE WHEN i > 5 THEN i - 5 END FROM generate_series(1, 160) i;
