-- Composite foreign keys that share a tenant column.
-- canaries: quokkanary
CREATE TABLE tenant (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE users (tenant integer REFERENCES tenant, id integer, name text, PRIMARY KEY (tenant, id));
CREATE TABLE project (tenant integer REFERENCES tenant, id integer, lead integer, PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, lead) REFERENCES users ON DELETE SET NULL (lead));
CREATE TABLE task (tenant integer NOT NULL, id integer, project integer NOT NULL, assignee integer, state text NOT NULL, PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, project) REFERENCES project ON DELETE CASCADE, FOREIGN KEY (tenant, assignee) REFERENCES users);
INSERT INTO tenant SELECT i, 'quokkanary ' || i FROM generate_series(1, 40) i;
INSERT INTO users SELECT t, u, 'quokkanary ' || t || u FROM generate_series(1, 40) t, generate_series(1, 4) u;
INSERT INTO project SELECT t, p, p FROM generate_series(1, 40) t, generate_series(1, 3) p;
INSERT INTO task SELECT t, k, 1 + k % 3, nullif(k % 5, 0), (ARRAY['open', 'done'])[1 + k % 2] FROM generate_series(1, 40) t, generate_series(1, 8) k;
