-- Reserved words as names of everything.
CREATE SCHEMA "user";
CREATE TABLE "user"."table" ("select" integer PRIMARY KEY, "from" integer NOT NULL, "order" text, "group" boolean, "end" date, "limit" integer CHECK ("limit" > 0), UNIQUE ("from", "order"));
INSERT INTO "user"."table" SELECT i, i, 'x', true, now(), i FROM generate_series(1, 150) i;
CREATE TABLE "order" ("user" integer REFERENCES "user"."table", "primary" serial PRIMARY KEY, "check" integer, "value" integer, "row" integer, "tableoid_" integer, "count" integer, t integer, id integer, n integer, broken integer, bad integer, good integer, turn integer, size integer, CHECK ("value" <= "row"));
INSERT INTO "order" ("user", "check", "value", "row") SELECT i, i, i, i + 1 FROM generate_series(1, 150) i;
