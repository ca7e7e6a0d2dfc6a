-- CHECKs through functions of one's own, and a CHECK without columns.
-- canaries: quokkanary
CREATE FUNCTION valid_digit(bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT $1 % 10 = ($1 / 10) % 7 $$;
CREATE FUNCTION tidy(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1 = initcap($1); END $$;
CREATE TABLE card (id integer PRIMARY KEY, no bigint NOT NULL CHECK (valid_digit(no)), holder text CHECK (tidy(holder)), CHECK (true));
INSERT INTO card SELECT i, i * 10 + i % 7, 'Quokkanary ' || i FROM generate_series(1, 150) i;
