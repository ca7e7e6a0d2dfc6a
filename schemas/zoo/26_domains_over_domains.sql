-- Domains over domains, over arrays, over enums and in keys.
CREATE DOMAIN whole AS integer CHECK (VALUE >= 0);
CREATE DOMAIN small_whole AS whole CHECK (VALUE < 1000);
CREATE DOMAIN even_whole AS small_whole NOT NULL CHECK (VALUE % 2 = 0);
CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
CREATE DOMAIN warm AS colour CHECK (VALUE <> 'blue');
CREATE DOMAIN pair AS integer[] CHECK (array_length(VALUE, 1) = 2);
CREATE TABLE box (id small_whole PRIMARY KEY, n even_whole, warm warm, ends pair, at pair NOT NULL);
INSERT INTO box SELECT i, 2 * i, (ARRAY['red', 'green'])[1 + i % 2]::colour, ARRAY[i, i], ARRAY[0, i] FROM generate_series(1, 150) i;
CREATE TABLE item (id integer PRIMARY KEY, box small_whole NOT NULL REFERENCES box);
INSERT INTO item SELECT i, 1 + i % 150 FROM generate_series(1, 200) i;
