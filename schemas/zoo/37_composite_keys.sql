-- Primary keys of several columns, referred to three levels deep.
-- canaries: quokkanary
CREATE TABLE company (country char(2), no integer, name text NOT NULL, PRIMARY KEY (country, no));
INSERT INTO company SELECT (ARRAY['DE', 'FR', 'NO'])[1 + i % 3], i, 'quokkanary ' || i FROM generate_series(1, 120) i;
CREATE TABLE site (country char(2), company integer, site smallint, opened date, PRIMARY KEY (country, company, site), FOREIGN KEY (country, company) REFERENCES company);
INSERT INTO site SELECT country, no, s, '2020-01-01'::date + no FROM company, generate_series(1, 2) s;
CREATE TABLE meter (country char(2), company integer, site smallint, serial text, PRIMARY KEY (country, company, site, serial), FOREIGN KEY (country, company, site) REFERENCES site ON DELETE CASCADE);
INSERT INTO meter SELECT country, company, site, 'S' || n FROM site, generate_series(1, 2) n;
