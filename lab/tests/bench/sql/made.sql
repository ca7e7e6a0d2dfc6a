CREATE TABLE item (id integer PRIMARY KEY, kind integer NOT NULL, size integer NOT NULL);
\copy item FROM 'item.csv' WITH (FORMAT csv)
