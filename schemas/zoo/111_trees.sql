-- Trees that noise may turn into circles: rare roots, NOT NULL roots, answers within a thread, trees of tenants.
-- canaries: quokkanary
CREATE TABLE employee (id serial PRIMARY KEY, name text NOT NULL, manager_id integer REFERENCES employee);
INSERT INTO employee (name, manager_id) SELECT i || 'quokkanary', CASE WHEN i > 1 THEN 1 + i / 9 END FROM generate_series(1, 700) i;
CREATE TABLE department (code text PRIMARY KEY, above text NOT NULL REFERENCES department DEFERRABLE, name text NOT NULL);
INSERT INTO department SELECT 'D' || i, 'D' || 1 + i / 7, i || 'quokkanary' FROM generate_series(1, 90) i;
CREATE TABLE post (id serial PRIMARY KEY, author integer NOT NULL REFERENCES employee, body text NOT NULL);
CREATE TABLE comment (
  post integer NOT NULL REFERENCES post, id integer NOT NULL, reply_to integer, author integer NOT NULL REFERENCES employee,
  body text NOT NULL, PRIMARY KEY (post, id), FOREIGN KEY (post, reply_to) REFERENCES comment (post, id), CHECK (reply_to <> id)
);
INSERT INTO post (author, body) SELECT 1 + i * i % 700, i || 'quokkanary' FROM generate_series(1, 900) i;
INSERT INTO comment SELECT p, i, CASE WHEN i > 1 AND (p + i) % 3 > 0 THEN i - 1 END, 1 + p * i % 700, p || 'quokkanary' || i FROM generate_series(1, 900) p, generate_series(1, 1 + p % 6) i;
CREATE TABLE version (id serial PRIMARY KEY, replaces integer UNIQUE REFERENCES version, root integer NOT NULL REFERENCES version, made date NOT NULL);
INSERT INTO version SELECT i, CASE WHEN i % 10 > 0 THEN i - 1 END, i - i % 10, date '2022-01-01' + i FROM generate_series(10, 600) i;
CREATE TABLE place (id serial PRIMARY KEY, inside integer REFERENCES place, depth integer NOT NULL, name text NOT NULL, UNIQUE (inside, name), CHECK ((depth = 0) = (inside IS NULL)));
INSERT INTO place SELECT i, CASE WHEN i > 3 THEN i / 3 END, CASE WHEN i > 3 THEN 1 + i % 3 ELSE 0 END, i || 'quokkanary' FROM generate_series(1, 500) i;
