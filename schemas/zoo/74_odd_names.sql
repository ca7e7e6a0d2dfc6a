-- Names of 63 bytes, with quotes, dots, spaces, newlines, backslashes, percent signs, non-ASCII letters.
-- canaries: quokkanary
CREATE SCHEMA "a.b ""c"" %s";
CREATE TYPE "a.b ""c"" %s"."State Ж" AS ENUM ('x', 'y');
CREATE TABLE "a.b ""c"" %s"."new
line" (" id" integer PRIMARY KEY, "Straße (€)" "a.b ""c"" %s"."State Ж" NOT NULL, "%d{0}" integer CHECK ("%d{0}" > 0), "a.b" text UNIQUE, "'; --" integer, "A" integer, "a" integer, "\n" text);
INSERT INTO "a.b ""c"" %s"."new
line" SELECT i, 'x', i, 'quokkanary ' || i, i, 1, 2, 'quokkanary ' || i FROM generate_series(1, 150) i;
CREATE TABLE "ttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt" ("ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc" serial PRIMARY KEY, "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc2" integer CONSTRAINT "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" REFERENCES "a.b ""c"" %s"."new
line" (" id"), "данные данные данные данные даннн" text, "NULL" text, "日本語" boolean NOT NULL DEFAULT true);
INSERT INTO "ttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt" ("cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc2", "NULL") SELECT i, 'null' FROM generate_series(1, 150) i;
CREATE VIEW "v;w" AS SELECT "日本語" AS "x y" FROM "ttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt";
