-- Row-level security with policies; policies speak of roles and stay behind.
-- canaries: quokkanary
CREATE TABLE secret (id integer PRIMARY KEY, owner text NOT NULL, body text);
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON secret USING (owner = current_user);
CREATE POLICY all_ ON secret FOR INSERT TO PUBLIC WITH CHECK (owner <> 'root');
INSERT INTO secret SELECT i, 'quokkanary' || i, 'quokkanary body ' || i FROM generate_series(1, 150) i;
