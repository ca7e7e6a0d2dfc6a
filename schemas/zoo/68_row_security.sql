-- Row-level security with policies, forced on the owner too.
-- canaries: quokkanary
CREATE TABLE secret (id integer PRIMARY KEY, owner text NOT NULL, body text);
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
ALTER TABLE secret FORCE ROW LEVEL SECURITY;
CREATE TABLE open (id serial PRIMARY KEY, name text);
CREATE POLICY never ON open AS RESTRICTIVE USING (false);
CREATE POLICY mine ON secret USING (owner = current_user);
CREATE POLICY all_ ON secret FOR INSERT TO PUBLIC WITH CHECK (owner <> 'root');
INSERT INTO secret SELECT i, 'quokkanary' || i, 'quokkanary body ' || i FROM generate_series(1, 150) i;
INSERT INTO open (name) SELECT 'quokkanary' || i FROM generate_series(1, 120) i;
ALTER TABLE open ENABLE ROW LEVEL SECURITY;
