CREATE SCHEMA shop;
CREATE TYPE shop.mood AS ENUM ('sad', 'glad');
CREATE TABLE shop.person (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE,
  mood shop.mood,
  upper_name text GENERATED ALWAYS AS (upper(name)) STORED,
  boss integer REFERENCES shop.person,
  favourite bigint
);
CREATE TABLE shop.thing (
  id bigserial PRIMARY KEY,
  owner integer NOT NULL REFERENCES shop.person ON DELETE CASCADE,
  price numeric CHECK (price > 0)
);
ALTER TABLE shop.person ADD FOREIGN KEY (favourite) REFERENCES shop.thing;
CREATE SEQUENCE shop.down INCREMENT -5 MINVALUE -1000 MAXVALUE -1;
CREATE TABLE shop.log (at date, n integer DEFAULT nextval('shop.down'), PRIMARY KEY (at, n))
  PARTITION BY RANGE (at);
CREATE TABLE shop.log_old PARTITION OF shop.log FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
CREATE TABLE shop.log_new PARTITION OF shop.log DEFAULT;
CREATE MATERIALIZED VIEW shop.wealth AS
  SELECT owner, sum(price) AS total FROM shop.thing GROUP BY owner;
CREATE MATERIALIZED VIEW shop.a_summary AS SELECT max(total) AS top FROM shop.wealth;
CREATE FUNCTION shop.boom() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'triggers must not fire during a load'; END $$;
CREATE TRIGGER boom BEFORE INSERT ON shop.person FOR EACH ROW EXECUTE FUNCTION shop.boom();
