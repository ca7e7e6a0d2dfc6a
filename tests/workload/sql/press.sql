CREATE TABLE city (
    land text, name text, size integer NOT NULL, code integer NOT NULL UNIQUE,
    PRIMARY KEY (land, name)
);
CREATE TABLE person (
    id integer PRIMARY KEY, age integer, joined timestamp NOT NULL,
    land text, town text, chief integer REFERENCES person,
    FOREIGN KEY (land, town) REFERENCES city (land, name)
);
CREATE TABLE article (
    id integer PRIMARY KEY, score integer NOT NULL, kind text NOT NULL,
    author integer NOT NULL REFERENCES person, editor integer REFERENCES person,
    about integer REFERENCES city (code)
);
INSERT INTO city SELECT 'l' || i % 4, 'n' || i, 100 * i, 7 * i FROM generate_series(1, 20) i;
INSERT INTO person
SELECT i, CASE WHEN i % 5 > 0 THEN 20 + i % 40 END,
    timestamp '2020-01-01' + i * interval '7 hours',
    CASE WHEN i % 3 > 0 THEN 'l' || i % 20 % 4 END, CASE WHEN i % 3 > 0 THEN 'n' || i % 20 END,
    CASE WHEN i > 10 THEN i / 10 END
FROM generate_series(1, 200) i WHERE i % 20 > 0;
INSERT INTO article
SELECT i, i % 17, (ARRAY['news', 'essay'])[1 + i % 2], 1 + i * i % 19,
    CASE WHEN i % 2 = 0 THEN 21 + i % 19 END, 7 * (1 + i % 20)
FROM generate_series(1, 900) i;
CREATE TABLE letters (name text);
