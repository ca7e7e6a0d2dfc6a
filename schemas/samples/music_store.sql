-- A music store with names in mixed case, a self-reference, invoices and playlists.
-- canaries: quokkanary
CREATE TABLE "Artist" ("ArtistId" INT NOT NULL, "Name" VARCHAR(120), CONSTRAINT "PK_Artist" PRIMARY KEY ("ArtistId"));
CREATE TABLE "Album" ("AlbumId" INT NOT NULL, "Title" VARCHAR(160) NOT NULL, "ArtistId" INT NOT NULL, CONSTRAINT "PK_Album" PRIMARY KEY ("AlbumId"), CONSTRAINT "FK_AlbumArtistId" FOREIGN KEY ("ArtistId") REFERENCES "Artist" ("ArtistId") ON DELETE NO ACTION);
CREATE TABLE "Genre" ("GenreId" INT PRIMARY KEY, "Name" VARCHAR(120));
CREATE TABLE "MediaType" ("MediaTypeId" INT PRIMARY KEY, "Name" VARCHAR(120));
CREATE TABLE "Track" ("TrackId" INT PRIMARY KEY, "Name" VARCHAR(200) NOT NULL, "AlbumId" INT REFERENCES "Album", "MediaTypeId" INT NOT NULL REFERENCES "MediaType", "GenreId" INT REFERENCES "Genre", "Composer" VARCHAR(220), "Milliseconds" INT NOT NULL, "Bytes" INT, "UnitPrice" NUMERIC(10, 2) NOT NULL);
CREATE TABLE "Playlist" ("PlaylistId" INT PRIMARY KEY, "Name" VARCHAR(120));
CREATE TABLE "PlaylistTrack" ("PlaylistId" INT NOT NULL REFERENCES "Playlist", "TrackId" INT NOT NULL REFERENCES "Track", PRIMARY KEY ("PlaylistId", "TrackId"));
CREATE TABLE "Employee" ("EmployeeId" INT PRIMARY KEY, "LastName" VARCHAR(20) NOT NULL, "FirstName" VARCHAR(20) NOT NULL, "Title" VARCHAR(30), "ReportsTo" INT REFERENCES "Employee", "BirthDate" TIMESTAMP, "HireDate" TIMESTAMP, "Address" VARCHAR(70), "Country" VARCHAR(40), "PostalCode" VARCHAR(10), "Phone" VARCHAR(24), "Email" VARCHAR(60));
CREATE TABLE "Customer" ("CustomerId" INT PRIMARY KEY, "FirstName" VARCHAR(40) NOT NULL, "LastName" VARCHAR(20) NOT NULL, "Company" VARCHAR(80), "City" VARCHAR(40), "State" VARCHAR(40), "Country" VARCHAR(40), "Fax" VARCHAR(24), "Email" VARCHAR(60) NOT NULL, "SupportRepId" INT REFERENCES "Employee");
CREATE TABLE "Invoice" ("InvoiceId" INT PRIMARY KEY, "CustomerId" INT NOT NULL REFERENCES "Customer", "InvoiceDate" TIMESTAMP NOT NULL, "BillingCity" VARCHAR(40), "BillingCountry" VARCHAR(40), "Total" NUMERIC(10, 2) NOT NULL);
CREATE TABLE "InvoiceLine" ("InvoiceLineId" INT PRIMARY KEY, "InvoiceId" INT NOT NULL REFERENCES "Invoice", "TrackId" INT NOT NULL REFERENCES "Track", "UnitPrice" NUMERIC(10, 2) NOT NULL, "Quantity" INT NOT NULL);
INSERT INTO "Artist" SELECT i, 'Quokkanary ' || i FROM generate_series(1, 275) i;
INSERT INTO "Album" SELECT i, 'Quokkanary Hits ' || i, 1 + (i * 7) % 204 FROM generate_series(1, 347) i;
INSERT INTO "Genre" SELECT i, 'Quokkanary genre ' || i FROM generate_series(1, 25) i;
INSERT INTO "MediaType" SELECT i, 'Quokkanary file ' || i FROM generate_series(1, 5) i;
INSERT INTO "Track" SELECT i, 'Quokkanary song ' || i, 1 + i / 11, 1 + (i % 17 = 0)::int, 1 + (i / 141), CASE WHEN i % 4 > 0 THEN 'Quokkanary, ' || i % 850 END, 150000 + (i * 7919) % 300000, 5000000 + (i * 104729) % 9000000, CASE WHEN i % 16 = 0 THEN 1.99 ELSE 0.99 END FROM generate_series(1, 3503) i;
INSERT INTO "Playlist" SELECT i, 'Quokkanary list ' || i FROM generate_series(1, 18) i;
INSERT INTO "PlaylistTrack" SELECT DISTINCT CASE WHEN i % 5 < 3 THEN 1 + i % 2 * 7 ELSE 1 + i % 18 END, 1 + i % 3503 FROM generate_series(1, 8715) i;
INSERT INTO "Employee" SELECT i, 'Quokkanary', 'Andrew' || i, 'Sales Agent', CASE WHEN i > 1 THEN 1 + i / 4 END, '1962-02-18'::timestamp + i * interval '400 days', '2002-08-14'::timestamp + i * interval '70 days', i || ' Quokkanary Ave', 'Canada', 'T5K 2N' || i, '+1 (780) 428-948' || i, 'quokkanary' || i || '@example.org' FROM generate_series(1, 8) i;
INSERT INTO "Customer" SELECT i, 'Quokkanary', 'Goncalves' || i, CASE WHEN i % 6 = 0 THEN 'Quokkanary Inc' END, 'Town' || i % 53, CASE WHEN i % 2 = 0 THEN 'SP' END, (ARRAY['Brazil', 'Germany', 'USA', 'USA', 'Canada'])[1 + i % 5], NULL, 'quokkanary' || i || '@example.org', 3 + i % 3 FROM generate_series(1, 59) i;
INSERT INTO "Invoice" SELECT i, 1 + i % 59, '2021-01-01'::timestamp + i * interval '4 days 10 h', 'Town', 'Germany', (i % 14) + 0.99 FROM generate_series(1, 412) i;
INSERT INTO "InvoiceLine" SELECT i, 1 + i % 412, 1 + (i * 3) % 3503, 0.99, 1 FROM generate_series(1, 2240) i;
