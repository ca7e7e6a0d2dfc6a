-- Thirty machines own four thousand readings; names are such as TOML has to quote.
CREATE TABLE person (id integer PRIMARY KEY, email text NOT NULL);
CREATE TABLE "app.set""tings" ("ke.y" text PRIMARY KEY, "va""lue" text);
CREATE TABLE "ma.chi""ne" (
    id integer PRIMARY KEY, "wa.tt""s" numeric, open boolean NOT NULL, "no.te""s" text, "do.c""s" jsonb
);
CREATE TABLE "rea.d""ing" (
    id integer PRIMARY KEY, machine_id integer NOT NULL REFERENCES "ma.chi""ne" ON DELETE CASCADE,
    a boolean NOT NULL, b boolean NOT NULL, c boolean NOT NULL, d boolean NOT NULL,
    e boolean NOT NULL, f boolean NOT NULL
);
INSERT INTO person SELECT i, 'p' || i || '@x.example' FROM generate_series(1, 200) i;
INSERT INTO "ma.chi""ne" SELECT i, i * 10, i % 2 = 0, md5(i::text), '{}' FROM generate_series(1, 30) i;
INSERT INTO "rea.d""ing"
SELECT i, 1 + i % 30, i % 2 = 0, i % 3 = 0, i % 5 = 0, i % 7 = 0, i % 11 = 0, i % 13 = 0
FROM generate_series(1, 4000) i;
