-- Composite keys of columns of which some may be NULL: mixed, into UNIQUE columns that may be NULL, into an empty table, to the table itself.
CREATE TABLE sites (region text, site integer, label text, UNIQUE (region, site));
CREATE TABLE visits (id integer PRIMARY KEY, region text NOT NULL, site integer, note text, FOREIGN KEY (region, site) REFERENCES sites (region, site));
CREATE TABLE closed (area integer NOT NULL, lot integer NOT NULL, PRIMARY KEY (area, lot));
CREATE TABLE claims (id integer PRIMARY KEY, area integer NOT NULL, lot integer, FOREIGN KEY (area, lot) REFERENCES closed);
CREATE TABLE nodes (tenant integer NOT NULL, id integer NOT NULL, parent integer, name text, PRIMARY KEY (tenant, id), FOREIGN KEY (tenant, parent) REFERENCES nodes (tenant, id));
CREATE TABLE steps (id integer PRIMARY KEY, line integer NOT NULL, pos integer, prev integer, UNIQUE (line, pos), FOREIGN KEY (line, prev) REFERENCES steps (line, pos));
INSERT INTO sites SELECT CASE WHEN i % 10 > 0 THEN 'R' || i % 7 END, CASE WHEN i % 9 > 0 THEN i END, 'Site ' || i FROM generate_series(0, 299) i;
INSERT INTO visits SELECT i, coalesce(s.region, 'R1'), CASE WHEN i % 3 > 0 AND s.region IS NOT NULL THEN s.site END, 'x' FROM generate_series(1, 600) i JOIN LATERAL (SELECT region, site FROM sites WHERE label = 'Site ' || i % 300) s ON true;
INSERT INTO claims SELECT i, i % 5, NULL FROM generate_series(1, 150) i;
INSERT INTO nodes SELECT 1 + i % 6, i, CASE WHEN i >= 12 THEN i - 6 * (1 + i % 2) END, 'n' FROM generate_series(0, 399) i;
INSERT INTO steps SELECT i, 1 + i % 20, i / 20, CASE WHEN i >= 20 THEN i / 20 - 1 END FROM generate_series(0, 299) i;
