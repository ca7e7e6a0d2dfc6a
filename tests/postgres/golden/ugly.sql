-- A schema with most of what PostgreSQL lets people do. Works on version 12 and later.
CREATE SCHEMA "Odd Shop";
CREATE SCHEMA "dots.and""quotes";

CREATE TYPE public.mood AS ENUM ('sad', 'it''s ok', 'Happy', '');
CREATE TYPE "Odd Shop"."Colour" AS ENUM ('red', 'green');
CREATE DOMAIN public.positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN public.percentage AS public.positive NOT NULL CHECK (VALUE <= 100);
CREATE DOMAIN "Odd Shop"."Code" AS varchar(8) CONSTRAINT shape CHECK (VALUE ~ '^[A-Z]+$');
CREATE SEQUENCE public.ticket START 1000 INCREMENT 5 CYCLE MAXVALUE 99999;

CREATE TABLE public.customer (
  id bigint GENERATED ALWAYS AS IDENTITY (START 10) PRIMARY KEY,
  email text COLLATE "C" NOT NULL UNIQUE,
  "Full Name" varchar(40) NOT NULL,
  mood public.mood DEFAULT 'Happy',
  share public.percentage,
  code "Odd Shop"."Code",
  colours "Odd Shop"."Colour"[],
  tags varchar(12)[] DEFAULT '{}',
  balance numeric(12,3) CHECK (balance >= 0),
  born date CHECK (born BETWEEN '1900-01-01' AND '2030-01-01'),
  seen timestamp(3) with time zone DEFAULT now(),
  pause interval(2),
  flags bit(4),
  state char(2) CONSTRAINT "State?" CHECK (state IN ('on', 'of')),
  referrer bigint REFERENCES public.customer (id) ON DELETE SET NULL,
  initials text GENERATED ALWAYS AS (left("Full Name", 1)) STORED,
  ticket integer DEFAULT nextval('public.ticket') NOT NULL,
  CHECK (code IS NOT NULL OR "Full Name" <> '')
);
ALTER TABLE public.customer DROP COLUMN pause, ADD COLUMN pause interval(2);
ALTER TABLE public.customer ALTER COLUMN email SET (n_distinct = -1);
COMMENT ON TABLE public.customer IS 'people who buy';
CREATE UNIQUE INDEX "customer lower" ON public.customer (lower(email));
CREATE UNIQUE INDEX customer_active ON public.customer ("Full Name") WHERE state = 'on';
CREATE UNIQUE INDEX customer_cover ON public.customer (code, born) INCLUDE (seen);
CREATE INDEX customer_born ON public.customer (born DESC NULLS LAST);

CREATE TABLE "Odd Shop"."Order.Items" (
  "order" integer NOT NULL,
  "Line #" smallint NOT NULL,
  customer text NOT NULL REFERENCES public.customer (email) ON UPDATE CASCADE
    DEFERRABLE INITIALLY DEFERRED,
  serial_no serial,
  parent_order integer,
  parent_line smallint,
  colour "Odd Shop"."Colour" NOT NULL DEFAULT 'red',
  span int4range,
  PRIMARY KEY ("order", "Line #"),
  CONSTRAINT "self ref" FOREIGN KEY (parent_order, parent_line)
    REFERENCES "Odd Shop"."Order.Items" ("order", "Line #") MATCH FULL,
  EXCLUDE USING gist (span WITH &&)
);

CREATE TABLE "dots.and""quotes"."note" (
  "a.b" integer PRIMARY KEY,
  "ünïcode" text,
  "line
break" real,
  item_order integer,
  item_line smallint,
  FOREIGN KEY (item_order, item_line) REFERENCES "Odd Shop"."Order.Items" ON DELETE CASCADE
);
ALTER TABLE public.customer ADD COLUMN favourite integer;
ALTER TABLE public.customer ADD CONSTRAINT "fav.note" FOREIGN KEY (favourite)
  REFERENCES "dots.and""quotes"."note" ("a.b") NOT VALID;

CREATE TABLE public.event (
  id bigint NOT NULL,
  at date NOT NULL,
  region text NOT NULL,
  customer bigint REFERENCES public.customer (id),
  payload jsonb,
  PRIMARY KEY (id, at, region)
) PARTITION BY RANGE (at);
CREATE TABLE public.event_2023 PARTITION OF public.event
  FOR VALUES FROM ('2023-01-01') TO ('2024-01-01') PARTITION BY LIST (region);
CREATE TABLE public.event_2023_eu PARTITION OF public.event_2023 FOR VALUES IN ('eu');
CREATE TABLE public.event_2023_rest PARTITION OF public.event_2023 DEFAULT;
CREATE TABLE public.event_rest PARTITION OF public.event DEFAULT;
CREATE TABLE public.region (name text PRIMARY KEY);
ALTER TABLE public.event_2023_eu ADD CONSTRAINT eu_region
  FOREIGN KEY (region) REFERENCES public.region;

CREATE TABLE public.animal (id serial PRIMARY KEY, name text);
CREATE TABLE public.dog (good boolean DEFAULT true) INHERITS (public.animal);

CREATE TABLE public.empty_table ();

CREATE VIEW public.buyers AS SELECT id, email FROM public.customer;
CREATE MATERIALIZED VIEW public.totals AS
  SELECT customer, count(*) AS events FROM public.event GROUP BY customer;
CREATE MATERIALIZED VIEW public.a_total AS SELECT count(*) AS n FROM public.totals;

CREATE FUNCTION public.shout() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  -- a semicolon; and a 'quote
  NEW."Full Name" := upper(NEW."Full Name");
  RETURN NEW;
END;
$body$;
CREATE TRIGGER shout BEFORE INSERT ON public.customer
  FOR EACH ROW EXECUTE FUNCTION public.shout();
