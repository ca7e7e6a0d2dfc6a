-- Functions, procedures, aggregates and triggers; no trigger may fire during a load.
-- canaries: quokkanary
CREATE TABLE audit (id serial PRIMARY KEY, what text NOT NULL);
CREATE TABLE stock (id integer PRIMARY KEY, n integer NOT NULL, touched timestamptz, name text NOT NULL);
INSERT INTO stock SELECT i, i, NULL, 'quokkanary ' || i FROM generate_series(1, 150) i;
CREATE FUNCTION bump() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN INSERT INTO audit (what) VALUES (TG_OP); NEW.touched := now(); RETURN NEW; END $f$;
CREATE FUNCTION deny() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'no change to %', TG_TABLE_NAME; END $f$;
CREATE TRIGGER bump BEFORE INSERT OR UPDATE ON stock FOR EACH ROW EXECUTE FUNCTION bump();
CREATE TRIGGER deny AFTER INSERT OR DELETE ON stock FOR EACH STATEMENT EXECUTE FUNCTION deny();
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deny();
ALTER TABLE stock ENABLE ALWAYS TRIGGER deny;
ALTER TABLE stock DISABLE TRIGGER bump;
CREATE FUNCTION total(a integer, b integer DEFAULT 2) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT a + b; -- a % sign; and a semicolon';
CREATE FUNCTION names() RETURNS SETOF stock LANGUAGE sql STABLE BEGIN ATOMIC SELECT * FROM stock; END;
CREATE PROCEDURE reset() LANGUAGE plpgsql AS $$ BEGIN DELETE FROM audit; COMMIT; END $$;
CREATE AGGREGATE product(integer) (SFUNC = int4mul, STYPE = integer, INITCOND = '1');
CREATE TABLE late_default (id integer PRIMARY KEY DEFAULT total(1), m integer DEFAULT total(2, 3));
INSERT INTO late_default SELECT i FROM generate_series(1, 110) i;
