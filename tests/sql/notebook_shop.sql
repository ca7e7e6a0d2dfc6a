CREATE TABLE country (id integer PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE users (
    id bigint PRIMARY KEY,
    country integer NOT NULL REFERENCES country,
    born date
);
INSERT INTO country VALUES (1, 'Chad'), (2, 'Peru'), (3, 'Oman');
INSERT INTO users SELECT i, 1 + i % 3, date '1950-01-01' + 30 * (i % 700) FROM generate_series(1, 400) AS i;
