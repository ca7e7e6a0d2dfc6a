-- xml documents and content.
-- requires: '<a/>'::xml
-- canaries: quokkanary
CREATE TABLE page (id integer PRIMARY KEY, doc xml NOT NULL CHECK (doc IS DOCUMENT), part xml);
INSERT INTO page SELECT i, ('<p>quokkanary ' || i || '</p>')::xml, 'quokkanary <b/>' FROM generate_series(1, 150) i;
INSERT INTO page VALUES (900, '<a/>', NULL);
