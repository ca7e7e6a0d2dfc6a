CREATE TABLE parent (a integer, b integer, PRIMARY KEY (a, b));
CREATE TABLE child (
    id integer PRIMARY KEY, a integer, b integer, label text NOT NULL, mail text UNIQUE,
    n integer CONSTRAINT positive CHECK (n > 0),
    CONSTRAINT pair FOREIGN KEY (a, b) REFERENCES parent
);
CREATE TABLE lonely (id integer);
