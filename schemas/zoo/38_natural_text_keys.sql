-- Natural text keys that others refer to.
-- canaries: quokkanary
CREATE TABLE country (iso char(2) PRIMARY KEY, name varchar(60) NOT NULL UNIQUE);
INSERT INTO country SELECT chr(65 + i / 26) || chr(65 + i % 26), 'quokkanary land ' || i FROM generate_series(0, 99) i;
CREATE TABLE sku (code varchar(12) PRIMARY KEY CHECK (code ~ '^[A-Z]{3}-[0-9]{4}$'), origin char(2) NOT NULL REFERENCES country);
INSERT INTO sku SELECT 'QKN-' || lpad(i::text, 4, '0'), chr(65 + (i % 100) / 26) || chr(65 + (i % 100) % 26) FROM generate_series(1, 150) i;
CREATE TABLE stock (sku varchar(12) REFERENCES sku ON UPDATE CASCADE, place text, n integer NOT NULL CHECK (n >= 0), PRIMARY KEY (sku, place));
INSERT INTO stock SELECT code, 'quokkanary ' || code || p, p FROM sku, generate_series(1, 2) p;
