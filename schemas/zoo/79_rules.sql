-- Rules, and views that INSTEAD OF triggers make writable.
-- canaries: quokkanary
CREATE TABLE base (id integer PRIMARY KEY, v text NOT NULL);
INSERT INTO base SELECT i, 'quokkanary ' || i FROM generate_series(1, 150) i;
CREATE VIEW face AS SELECT id, v FROM base;
CREATE RULE face_in AS ON INSERT TO face DO INSTEAD INSERT INTO base VALUES (NEW.id, NEW.v);
CREATE RULE no_delete AS ON DELETE TO base DO INSTEAD NOTHING;
CREATE RULE no_insert AS ON INSERT TO base WHERE NEW.id < 0 DO INSTEAD NOTHING;
CREATE VIEW face2 AS SELECT id FROM base GROUP BY id;
CREATE FUNCTION into_base() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO base VALUES (NEW.id, 'x'); RETURN NEW; END $$;
CREATE TRIGGER t INSTEAD OF INSERT ON face2 FOR EACH ROW EXECUTE FUNCTION into_base();
